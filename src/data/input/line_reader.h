// Text lines of a file, compressed or not, with bounded memory per line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "data/input/byte_source.h"

namespace reigen {

// The limit for a line, a TMX segment or a PO string. A longer one is cut to kMaxLineBytes + 1
// bytes and the rest is skipped, so that a file without newlines does not fill the memory. Callers
// must drop a line with size() > kMaxLineBytes: its end is missing.
constexpr size_t kMaxLineBytes = 1 << 18;

// Lines without their "\n" or "\r\n", cut to `most_bytes` + 1 as above. A byte order mark at the
// start of the file is dropped; UTF-16 and UTF-32 are errors.
class LineReader {
 public:
  explicit LineReader(const std::string& path);
  explicit LineReader(ByteSource source, size_t most_bytes = kMaxLineBytes);

  bool next(std::string& line);  // false at the end
  bool at_end();                 // waits for a byte or the end
  uint64_t lines() const { return lines_; }
  ByteSource& source() { return source_; }
  const ByteSource& source() const { return source_; }

 private:
  ByteSource source_;
  size_t most_bytes_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t lines_ = 0;
};

}  // namespace reigen
