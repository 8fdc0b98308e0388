// Parallel text in any format, as a stream of raw pairs. Each format is one small reader.
//
// Readers do not judge: they hand over what the file holds, and mark what is not a pair at all
// (a TSV line with one column) so that it is counted rather than lost. A side longer than
// kMaxLineBytes is cut off, and tells so by its size.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "config/corpus_spec.h"
#include "data/input/byte_source.h"

namespace reigen {

struct RawPair {
  std::string source;
  std::string target;
  bool malformed = false;
};

class PairReader {
 public:
  virtual ~PairReader() = default;

  // False at the end. Throws DataError for input that cannot be trusted any further.
  virtual bool next(RawPair& pair) = 0;
  virtual uint64_t raw_bytes_read() const = 0;  // for progress
  virtual std::vector<InputFile> inputs() = 0;  // once everything has been read
};

// For formats that are read in bites which may hold no pair or many.
class QueuedReader : public PairReader {
 public:
  bool next(RawPair& pair) final;

 protected:
  virtual void read_some() = 0;  // adds to ready_, or sets ended_, or both

  std::deque<RawPair> ready_;
  bool ended_ = false;
};

// By `spec.format`, or by the file's name: two files are text; .tsv, .tmx, .po, .mo (also with .gz,
// .zst or .xz behind). The languages choose a TMX file's segments. Throws ConfigError where the
// spec contradicts itself.
std::unique_ptr<PairReader> open_pairs(const CorpusSpec& spec, const std::string& source_language,
                                       const std::string& target_language);

std::unique_ptr<PairReader> open_text_pairs(const std::string& source, const std::string& target);
std::unique_ptr<PairReader> open_tsv(const std::string& path);
std::unique_ptr<PairReader> open_tmx(const std::string& path, const std::string& source_language,
                                     const std::string& target_language);
std::unique_ptr<PairReader> open_po(const std::string& path);
std::unique_ptr<PairReader> open_mo(const std::string& path);

}  // namespace reigen
