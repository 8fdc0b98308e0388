// Where a command writes lines: standard output, or a file that comes into being once it is
// complete.
//
// A file is written beside its final name and renamed; a link is followed to what it names.
// Anything else (a pipe, a device) is written to as it is. What cannot be written to is found out
// at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/files.h"

namespace reigen {

class LineOutput {
 public:
  static constexpr const char* kStandard = "-";

  // Throws ConfigError for a directory, IoError for what cannot be opened.
  explicit LineOutput(const std::string& path);
  ~LineOutput();
  LineOutput(const LineOutput&) = delete;
  LineOutput& operator=(const LineOutput&) = delete;

  // False when nobody reads it any more.
  bool write(std::string_view text);

  void close();  // it is complete
  void keep();   // it is not, but stays where partial() says
  std::string partial() const { return file_ ? final_ + ".partial" : final_; }

 private:
  std::string final_;
  int fd_ = -1;                       // standard output, a pipe, a device
  std::unique_ptr<FileWriter> file_;  // or a regular file
};

}  // namespace reigen
