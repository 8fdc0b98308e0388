// Parallel text in any format, as a stream of raw pairs. Each format is one small reader.
//
// Readers return every entry of the file; an entry that is not a pair (a TSV line with one column)
// is marked as malformed, so that it is counted. A side longer than kMaxLineBytes is cut to
// kMaxLineBytes + 1 bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "config/corpus_spec.h"
#include "data/input/line_reader.h"

namespace reigen {

struct RawPair {
  std::string source;
  std::string target;
  bool malformed = false;
};

class PairReader {
 public:
  virtual ~PairReader() = default;

  // False at the end. Throws DataError if the rest of the file cannot be read reliably.
  virtual bool next(RawPair& pair) = 0;
  virtual uint64_t raw_bytes_read() const = 0;  // for progress
  virtual std::vector<InputFile> inputs() = 0;  // after all pairs have been read
};

// For formats that are read in blocks with any number of pairs.
class QueuedReader : public PairReader {
 public:
  bool next(RawPair& pair) final;

 protected:
  virtual void read_some() = 0;  // adds to ready_, or sets ended_, or both

  std::deque<RawPair> ready_;
  bool ended_ = false;
};

// Chooses the reader by `spec.format`, or by file name: two files are text; .tsv, .tmx, .po, .mo
// (also followed by .gz, .zst or .xz). The languages select the segments of a TMX file. Throws
// ConfigError if the spec contradicts itself.
std::unique_ptr<PairReader> open_pairs(const CorpusSpec& spec, const std::string& source_language,
                                       const std::string& target_language);

std::unique_ptr<PairReader> open_text_pairs(const std::string& source, const std::string& target);
std::unique_ptr<PairReader> open_tsv(const std::string& path);
std::unique_ptr<PairReader> open_tmx(const std::string& path, const std::string& source_language,
                                     const std::string& target_language);
std::unique_ptr<PairReader> open_po(const std::string& path);
std::unique_ptr<PairReader> open_mo(const std::string& path);

}  // namespace reigen
