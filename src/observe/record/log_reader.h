// Reads a measurement log line by line, in memory that does not grow with the log.
//
// A log may be read while it is being written, or after a crash: bytes behind the last newline are
// a line still on its way, and are left out. Damage anywhere else is an error with file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/record/records.h"

namespace reigen {

// The whole lines of a file.
class LogLineReader {
 public:
  // From a byte that begins a line. Throws DataError when the file cannot be opened.
  explicit LogLineReader(std::string path, uint64_t from = 0);
  ~LogLineReader();
  LogLineReader(const LogLineReader&) = delete;
  LogLineReader& operator=(const LogLineReader&) = delete;

  // The next line without its newline, valid until the next call; false behind the last whole one.
  bool next(std::string_view& line);

  uint64_t number() const { return number_; }  // of that line, from 1 at the beginning
  uint64_t end() const { return end_; }        // bytes up to and with its newline
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

// Throws DataError naming the file and line it came from when `line` is no record.
Record parse_record(std::string_view line, const std::string& path, uint64_t number);

// In the order they were written.
void for_each_record(const std::string& path, const std::function<void(const Record&)>& visit);
std::vector<Record> read_records(const std::string& path);

}  // namespace reigen
