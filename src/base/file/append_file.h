// A file that only grows; a full disk delays its bytes but does not lose them.
//
// For measurements and events: a failed write must not end a run of days. Bytes that cannot be
// written wait in memory, in order, and every later call retries where the last one stopped, so
// that the file is always a prefix of the appended bytes.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace reigen {

class AppendFile {
 public:
  // Opens or creates the file and its parent folders; throws IoError if it cannot.
  explicit AppendFile(std::string path);
  ~AppendFile();  // retries once more; warns of the number of lost bytes if that fails
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // One write for all of `bytes`, visible to readers immediately. A failed write does not throw: a
  // warning is logged when writing starts to fail and when it works again. Any thread may call it.
  void append(std::string_view bytes);

  // Writes the waiting bytes and syncs. Returns whether all appended bytes are on the disk.
  bool flush();

  size_t waiting() const;  // bytes in memory that could not be written yet
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

// log.txt: lines for people. A full disk loses some of them, without a warning, because a warning
// is itself a line of the log.
class TextLog {
 public:
  explicit TextLog(const std::string& path);  // throws IoError if it cannot be opened or created
  ~TextLog();
  TextLog(const TextLog&) = delete;
  TextLog& operator=(const TextLog&) = delete;

  void write(std::string_view line);  // which ends with a newline

 private:
  int fd_;
};

}  // namespace reigen
