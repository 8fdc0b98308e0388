// Reads a file line by line, in memory that does not grow with the file.
//
// A log may be read while it is being written, or after a crash: bytes after the last newline are
// an unfinished line and are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reigen {

// The complete lines of a file.
class LogLineReader {
 public:
  // `from` is the offset of the first byte of a line. Throws DataError when the file cannot be
  // opened.
  explicit LogLineReader(std::string path, uint64_t from = 0);
  ~LogLineReader();
  LogLineReader(const LogLineReader&) = delete;
  LogLineReader& operator=(const LogLineReader&) = delete;

  // The next line without its newline, valid until the next call; false after the last complete
  // line.
  bool next(std::string_view& line);

  uint64_t number() const { return number_; }  // of that line, counted from `from`, from 1
  uint64_t end() const { return end_; }        // offset of the byte after its newline
  const std::string& path() const { return path_; }

 private:
  bool read_more();

  std::string path_;
  int fd_ = -1;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t number_ = 0;
  uint64_t end_ = 0;
};

}  // namespace reigen
