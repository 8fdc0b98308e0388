// The joint vocabulary of both languages, and how text becomes piece numbers. A door to
// SentencePiece.
//
// Two kinds: a SentencePiece model, which cuts plain text itself, and a plain list of pieces for
// text that some other tool has already cut. An Encoder gives exactly what `spm_encode` gives.
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
  // A SentencePiece FILE.model, or a FILE.vocab with one piece a line (and an optional score).
  static Vocabulary load(const std::string& path);
  static Vocabulary from_model_bytes(std::string bytes, const std::string& name);
  static Vocabulary from_piece_list(std::string bytes, const std::string& name);
  ~Vocabulary();
  Vocabulary(Vocabulary&&) noexcept;
  Vocabulary& operator=(Vocabulary&&) noexcept;

  size_t size() const;
  uint32_t eos() const;
  uint32_t bos() const;  // eos where the vocabulary has no beginning-of-sentence piece
  uint32_t unk() const;
  std::string piece(uint32_t id) const;

  bool cuts_text() const;  // false: text must come already cut into pieces
  std::string decode(std::span<const uint32_t> ids) const;

  // Plain text from a line that is cut into pieces, also into pieces the vocabulary lacks.
  static std::string join_pieces(std::string_view line);

  // What is stored with a dataset or checkpoint, and under which name.
  const std::string& bytes() const;
  std::string file_name() const;

 private:
  friend class Encoder;
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Cuts lines into pieces, remembering words it has seen; one per thread. The vocabulary must
// outlive it.
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
