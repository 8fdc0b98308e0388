// The vocabulary of a model, and the conversion of text to piece numbers. A door to SentencePiece.
//
// One joint vocabulary for both languages, or two: then a Vocabulary is that of the target language
// and has the one of the source language with it, source().
//
// Two kinds: a SentencePiece model, which cuts plain text into pieces, and a plain list of pieces
// for text that is already cut. An Encoder returns exactly the ids of `spm_encode`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_counts.h"

namespace reigen {

class Vocabulary {
 public:
  // A SentencePiece FILE.model, or a FILE.vocab with one piece per line (and an optional score).
  static Vocabulary load(const std::string& path);
  // The same, or the directory of a dataset, a checkpoint or a run with checkpoints.
  static Vocabulary load_given(const std::string& path);
  static Vocabulary from_model_bytes(std::string bytes, const std::string& name);
  static Vocabulary from_piece_list(std::string bytes, const std::string& name);
  // Two vocabularies, both SentencePiece models or both lists; else DataError.
  static Vocabulary pair(Vocabulary source, Vocabulary target);
  // Those of a dataset or checkpoint, from its files by these names: one name or two.
  static Vocabulary load_from(const std::string& directory, const std::vector<std::string>& names);
  ~Vocabulary();
  Vocabulary(Vocabulary&&) noexcept;
  Vocabulary& operator=(Vocabulary&&) noexcept;

  size_t size() const;
  uint32_t eos() const;
  uint32_t bos() const;  // eos if the vocabulary has no beginning-of-sentence piece
  uint32_t unk() const;
  std::string piece(uint32_t id) const;

  // The tag of a target language (text/language_tag.h). None where there is no such piece, and
  // where it could also come from text: such a piece is an ordinary one.
  std::optional<uint32_t> tag(std::string_view language) const;
  std::vector<std::string> tagged_languages() const;  // by the ids of their tags
  // Of models that others made: a line may begin with a tag itself.
  bool takes_tags_of_lines() const;

  bool cuts_text() const;  // false: text must come already cut into pieces
  std::string decode(std::span<const uint32_t> ids) const;
  // The same with text in place of unknown pieces: the n-th one becomes the n-th of `unknown`, or
  // nothing where there are fewer.
  std::string decode(std::span<const uint32_t> ids, std::span<const std::string> unknown) const;
  // The pieces of a line that are unknown, in order, as text.
  std::vector<std::string> unknown_pieces(std::string_view line) const;

  // Plain text from a line that is cut into pieces, including pieces not in the vocabulary.
  static std::string join_pieces(std::string_view line);

  // The vocabulary of source text: this one, if it is joint.
  const Vocabulary& source() const;
  bool has_source() const;  // whether source() is a different one

  // Two vocabularies with the same pieces, which only differ in how they cut text, count as joint:
  // a model needs one table for both.
  PieceCounts pieces() const;

  const std::string& bytes() const;

  // The files stored with a dataset or checkpoint: one, or that of the source and that of the
  // target.
  struct File {
    std::string name;
    const Vocabulary* vocabulary;
  };
  std::vector<File> files() const;
  static bool is_file_name(std::string_view name);  // whether a file of files() has such a name

 private:
  friend class Encoder;
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class LineTags { kTaken, kText };

// Cuts lines into pieces, with a cache of words. Not thread-safe: one per thread. The vocabulary
// must outlive it.
class Encoder {
 public:
  // kTaken: a tag that a line begins with names its target language, if the vocabulary takes such
  // tags; kText: it is text.
  explicit Encoder(const Vocabulary& vocabulary, LineTags tags = LineTags::kTaken);
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  // Appends the pieces of `line` (without end of sentence) to `ids`.
  void encode(std::string_view line, std::vector<uint32_t>& ids);

 private:
  struct Cache;
  std::string_view take_tag(std::string_view line, std::vector<uint32_t>& ids) const;
  void encode_words(std::string_view line, std::vector<uint32_t>& ids);
  void encode_whole(std::string_view line, std::vector<uint32_t>& ids) const;
  void look_up_pieces(std::string_view line, std::vector<uint32_t>& ids) const;

  const Vocabulary::Impl* vocabulary_;
  LineTags tags_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace reigen
