// The joint vocabulary of both languages, and the conversion of text to piece numbers. A door to
// SentencePiece.
//
// Two kinds: a SentencePiece model, which cuts plain text into pieces, and a plain list of pieces
// for text that is already cut. An Encoder returns exactly the ids of `spm_encode`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reigen {

class Vocabulary {
 public:
  // A SentencePiece FILE.model, or a FILE.vocab with one piece per line (and an optional score).
  static Vocabulary load(const std::string& path);
  static Vocabulary from_model_bytes(std::string bytes, const std::string& name);
  static Vocabulary from_piece_list(std::string bytes, const std::string& name);
  ~Vocabulary();
  Vocabulary(Vocabulary&&) noexcept;
  Vocabulary& operator=(Vocabulary&&) noexcept;

  size_t size() const;
  uint32_t eos() const;
  uint32_t bos() const;  // eos if the vocabulary has no beginning-of-sentence piece
  uint32_t unk() const;
  std::string piece(uint32_t id) const;

  bool cuts_text() const;  // false: text must come already cut into pieces
  std::string decode(std::span<const uint32_t> ids) const;

  // Plain text from a line that is cut into pieces, including pieces not in the vocabulary.
  static std::string join_pieces(std::string_view line);

  // Content and name of the file stored with a dataset or checkpoint.
  const std::string& bytes() const;
  std::string file_name() const;

 private:
  friend class Encoder;
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Cuts lines into pieces, with a cache of words. Not thread-safe: one per thread. The vocabulary
// must outlive it.
class Encoder {
 public:
  explicit Encoder(const Vocabulary& vocabulary);
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  // Appends the pieces of `line` (without end of sentence) to `ids`.
  void encode(std::string_view line, std::vector<uint32_t>& ids);

 private:
  struct Cache;
  void encode_words(std::string_view line, std::vector<uint32_t>& ids);
  void encode_whole(std::string_view line, std::vector<uint32_t>& ids) const;
  void look_up_pieces(std::string_view line, std::vector<uint32_t>& ids) const;

  const Vocabulary::Impl* vocabulary_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace reigen
