// A file that only grows, and that a full disk delays but does not lose.
//
// For what is written beside the work (measurements, events): a failed write must not end a run of
// days. Bytes that cannot be written wait in memory, in order, and every later call tries again
// where the last one stopped, so that the file is at any time a prefix of what was appended.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace reigen {

class AppendFile {
 public:
  // Opens or creates the file and the folders it is in; throws IoError when that cannot be done.
  explicit AppendFile(std::string path);
  ~AppendFile();  // tries once more, and says how much was lost if that fails too
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // One write for all of `bytes`, visible to readers at once. Never throws for a failed write: it
  // warns when writing starts to fail and when it works again. Any thread.
  void append(std::string_view bytes);

  // Tries what is waiting and syncs; whether everything appended is now safe on the disk.
  bool flush();

  size_t waiting() const;  // bytes in memory because they could not be written
  const std::string& path() const { return path_; }

 private:
  bool drain();
  void warn_failed(int error_number);
  void warn_recovered();

  std::string path_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::string pending_;
  bool failing_ = false;
  bool sync_failed_ = false;
};

}  // namespace reigen
