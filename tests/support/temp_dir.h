// A temporary directory for one test, removed by the destructor.
#pragma once

#include <string>
#include <string_view>

namespace reigen {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  // The directory, or `name` inside it (which need not exist).
  std::string path(const std::string& name = "") const;

 private:
  std::string path_;
};

// Creates or replaces the file; throws std::runtime_error if it cannot.
void write_text(const std::string& path, std::string_view text);

}  // namespace reigen
