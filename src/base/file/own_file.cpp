#include "base/file/own_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// The name of a kind of file that cannot be opened here; nothing for a regular file.
const char* other_kind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void throw_open_error(const std::string& path, int error_number) {
  struct stat there = {};
  const bool found = lstat(path.c_str(), &there) == 0;
  if (found && S_ISLNK(there.st_mode)) {
    throw IoError(format("{}: is a symbolic link, which is not followed here; remove it", path));
  }
  const char* kind = found ? other_kind(there.st_mode) : nullptr;
  if (kind != nullptr) {
    throw IoError(format("{}: is {}, not a regular file; remove it", path, kind));
  }
  throw_write_error(path, error_number);
}

}  // namespace

void throw_write_error(const std::string& path, int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    hint = "; free some space or choose a different --output";
  }
  if (error_number == EACCES || error_number == EROFS || error_number == EPERM) {
    hint = "; choose an --output with write permission";
  }
  throw IoError(format("{}: cannot write: {}{}", path, errno_text(error_number), hint));
}

int open_own_file(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0) throw_open_error(path, errno);
  struct stat info = {};
  const char* kind = fstat(fd, &info) == 0 ? other_kind(info.st_mode) : "unreadable";
  if (kind == nullptr) return fd;
  ::close(fd);
  throw IoError(format("{}: is {}, not a regular file; remove it", path, kind));
}

void truncate_own_file(const std::string& path, uint64_t bytes) {
  replace_end_of_own_file(path, bytes, {});
}

bool replace_end_of_own_file(const std::string& path, uint64_t bytes, std::string_view end) {
  const int fd = open_own_file(path, O_WRONLY);
  const ssize_t put = pwrite(fd, end.data(), end.size(), static_cast<off_t>(bytes));
  const bool whole = put == static_cast<ssize_t>(end.size());
  const int result = ftruncate(fd, static_cast<off_t>(bytes + (whole ? end.size() : 0)));
  const int error_number = errno;
  ::close(fd);
  if (result == 0) return whole;
  throw IoError(format("{}: cannot be shortened: {}", path, errno_text(error_number)));
}

int open_lock_file(const std::string& path, const std::function<bool(std::string_view)>& is_ours) {
  const int fd = open_own_file(path, O_RDWR | O_CREAT);
  const std::string text = lock_text(fd);
  if (text.empty() || is_ours(text)) {
    // Whoever may read a file may lock it: any user of the machine could stop a run from resuming.
    // The group may share the run. A file of a different user stays as it is.
    struct stat info = {};
    if (fstat(fd, &info) == 0) static_cast<void>(fchmod(fd, info.st_mode & 07770));
    return fd;
  }
  ::close(fd);
  throw ConfigError(
      format("{}: is not a lock file of reigen and would be overwritten; move it elsewhere", path));
}

std::string lock_text(int fd) {
  std::array<char, 256> text = {};
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(got > 0 ? got : 0)};
}

bool take_lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  struct stat opened = {};
  struct stat named = {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

namespace {

int open_regular_for_reading(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0) {
    throw DataError(format("{}: is a symbolic link, which is not followed here; remove it", path));
  }
  if (fd < 0) throw DataError(format("{}: {}", path, errno_text(errno)));
  struct stat info = {};
  const char* kind = fstat(fd, &info) == 0 ? other_kind(info.st_mode) : "unreadable";
  if (kind == nullptr) return fd;
  ::close(fd);
  throw DataError(format("{}: is {}, not a regular file", path, kind));
}

}  // namespace

int open_for_reading(const std::string& path) { return open_regular_for_reading(path, 0); }
int open_own_for_reading(const std::string& path) {
  return open_regular_for_reading(path, O_NOFOLLOW);
}

}  // namespace reigen
