#include "base/file/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/terminal.h"

namespace reigen {
namespace {

const char* what_to_do(int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT) return "free some space";
  if (error_number == EFBIG) return "lift the limit on file sizes";
  return "check the disk";
}

}  // namespace

AppendFile::AppendFile(std::string path) : path_(std::move(path)) {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) {
    throw IoError(format("{}: cannot be created: {}", parent.string(), error.message()));
  }
  fd_ = open_own_file(path_, O_WRONLY | O_CREAT | O_APPEND);
}

AppendFile::~AppendFile() {
  std::lock_guard lock(mutex_);
  if (!drain()) {
    log_warning(
        format("{}: {} could not be written and are lost", path_, human_bytes(pending_.size())));
  }
  ::close(fd_);
}

void AppendFile::append(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  pending_.append(bytes);
  drain();
}

bool AppendFile::flush() {
  std::lock_guard lock(mutex_);
  const bool drained = drain();
  // Some filesystems cannot sync and return EINVAL.
  if (fsync(fd_) == 0 || errno == EINVAL) return drained;
  // Linux reports a failed sync only once: there is no recovery to announce.
  if (!sync_failed_) {
    log_warning(
        format("{}: cannot be synced: {}; the last writes are lost if this machine crashes; "
               "check the disk",
               path_, errno_text(errno)));
  }
  sync_failed_ = true;
  return false;
}

size_t AppendFile::waiting() const {
  std::lock_guard lock(mutex_);
  return pending_.size();
}

bool AppendFile::drain() {
  size_t at = 0;
  int error_number = 0;
  while (at < pending_.size()) {
    const ssize_t put = ::write(fd_, pending_.data() + at, pending_.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      error_number = put < 0 ? errno : ENOSPC;
      break;
    }
    at += static_cast<size_t>(put);
  }
  if (at > 0) pending_.erase(0, at);
  if (error_number != 0) {
    warn_failed(error_number);
    return false;
  }
  warn_recovered();
  return true;
}

void AppendFile::warn_failed(int error_number) {
  if (failing_) return;
  failing_ = true;
  log_warning(format("{}: cannot write: {}; {}; new data waits in memory until then", path_,
                     errno_text(error_number), what_to_do(error_number)));
}

void AppendFile::warn_recovered() {
  if (!failing_) return;
  failing_ = false;
  log_warning(format("{}: can be written again; nothing was lost", path_));
}

TextLog::TextLog(const std::string& path)
    : fd_(open_own_file(path, O_WRONLY | O_CREAT | O_APPEND)) {}

TextLog::~TextLog() { ::close(fd_); }

void TextLog::write(std::string_view line) {
  [[maybe_unused]] const ssize_t put = ::write(fd_, line.data(), line.size());
}

}  // namespace reigen
