// The output of a command, line by line: standard output, or a file that appears once it is
// complete.
//
// A regular file is written as PATH.partial and renamed; a link is followed to its target. A pipe
// or a device is written directly. An output that cannot be opened is an error at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/file/files.h"

namespace reigen {

class LineOutput {
 public:
  static constexpr const char* kStandard = "-";

  // Throws ConfigError for a directory, IoError when it cannot be opened.
  explicit LineOutput(const std::string& path);
  ~LineOutput();
  LineOutput(const LineOutput&) = delete;
  LineOutput& operator=(const LineOutput&) = delete;

  // False when the reader of a pipe has closed it. Throws Interrupted after a signal where the
  // reader takes nothing; may be called on any thread.
  bool write(std::string_view text);

  void close();          // complete: gives a file its final name
  void close_partial();  // incomplete: the file stays at partial()
  std::string partial() const { return file_ ? final_ + ".partial" : final_; }

 private:
  std::string final_;
  int fd_ = -1;                       // standard output, a pipe, a device
  std::unique_ptr<FileWriter> file_;  // or a regular file
};

}  // namespace reigen
