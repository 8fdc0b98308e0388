// Cleaned pairs in a temporary file, until the vocabulary is trained on them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/file/files.h"

namespace reigen {

struct SpooledPair {
  uint32_t corpus = 0;
  uint64_t line = 0;
  std::string source;
  std::string target;
};

class SpoolWriter {
 public:
  explicit SpoolWriter(const std::string& path) : file_(path) {}
  void add(uint32_t corpus, uint64_t line, const std::string& source, const std::string& target);
  void close() { file_.close(); }
  uint64_t pairs() const { return pairs_; }

 private:
  FileWriter file_;
  uint64_t pairs_ = 0;
};

// Reads as a stream, not through a mapping, so that resident memory stays constant.
class SpoolReader {
 public:
  explicit SpoolReader(const std::string& path);
  ~SpoolReader();
  SpoolReader(const SpoolReader&) = delete;
  SpoolReader& operator=(const SpoolReader&) = delete;

  bool next(SpooledPair& pair);

 private:
  void read(void* out, size_t size);

  std::string path_;
  std::FILE* file_;
};

}  // namespace reigen
