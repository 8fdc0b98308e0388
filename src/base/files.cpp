#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 1 << 20;

[[noreturn]] void throw_write_error(const std::string& path, int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    hint = "; free some space or choose another --output";
  }
  if (error_number == EACCES || error_number == EROFS || error_number == EPERM) {
    hint = "; choose an --output you may write to";
  }
  throw IoError(format("{}: cannot write: {}{}", path, errno_text(error_number), hint));
}

void sync_directory(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_write_error(path, errno);
  int result = fsync(fd);
  int error_number = errno;
  ::close(fd);
  // Some filesystems cannot sync a directory and say EINVAL; the rename is still atomic there.
  if (result != 0 && error_number != EINVAL) throw_write_error(path, error_number);
}

std::string parent_of(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

std::string read_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw DataError(format("{}: {}", path, errno_text(errno)));
  std::string text;
  std::vector<char> buffer(kBufferBytes);
  ssize_t got = 0;
  while ((got = read(fd, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  int error_number = errno;
  ::close(fd);
  if (got < 0) throw DataError(format("{}: {}", path, errno_text(error_number)));
  return text;
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

uint64_t file_size(const std::string& path) {
  std::error_code error;
  uint64_t size = fs::file_size(path, error);
  if (error) throw DataError(format("{}: {}", path, error.message()));
  return size;
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_write_error(path_, errno);
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  bytes_ += size;
  sum_.update(data, size);
  while (size > 0) {
    size_t room = std::min(size, kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), from, from + room);
    from += room;
    size -= room;
    if (buffer_.size() == kBufferBytes) flush();
  }
}

void FileWriter::flush() {
  size_t at = 0;
  while (at < buffer_.size()) {
    ssize_t put = ::write(fd_, buffer_.data() + at, buffer_.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_write_error(path_, errno);
    at += static_cast<size_t>(put);
  }
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  if (fsync(fd_) != 0) throw_write_error(path_, errno);
  int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) throw_write_error(path_, errno);
  digest_ = sum_.hex();
}

StagedDirectory::StagedDirectory(std::string final_path, bool overwrite)
    : final_(without_trailing_slash(std::move(final_path))),
      partial_(final_ + ".partial"),
      overwrite_(overwrite) {
  if (final_.empty()) throw ConfigError("--output is empty; name a directory to write");
  if (path_exists(final_) && !overwrite_) {
    throw ConfigError(
        format("{}: already exists; choose another --output or pass --overwrite", final_));
  }
  if (path_exists(final_) && !is_directory(final_)) {
    throw ConfigError(format("{}: is not a directory; choose another --output", final_));
  }
  std::error_code error;
  fs::create_directories(parent_of(final_), error);
  if (error) throw_write_error(parent_of(final_), error.value());
  lock();
  fs::remove_all(partial_, error);
  if (error || mkdir(partial_.c_str(), 0777) != 0) {
    int error_number = error ? error.value() : errno;
    unlink((partial_ + ".lock").c_str());
    ::close(lock_fd_);
    throw_write_error(partial_, error_number);
  }
}

// The lock lives beside the directory, not in it: what is renamed holds only what was asked for.
void StagedDirectory::lock() {
  std::string path = partial_ + ".lock";
  lock_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_fd_ < 0) throw_write_error(path, errno);
  struct stat held = {};
  struct stat named = {};
  bool locked = flock(lock_fd_, LOCK_EX | LOCK_NB) == 0 && fstat(lock_fd_, &held) == 0 &&
                stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino;
  if (!locked) {
    ::close(lock_fd_);
    throw ConfigError(
        format("{}: another reigen is writing it now; wait for it or choose another "
               "--output",
               final_));
  }
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(partial_, ignored);
  unlink((partial_ + ".lock").c_str());
  ::close(lock_fd_);
}

void StagedDirectory::commit() {
  sync_directory(partial_);
  bool replace = overwrite_ && path_exists(final_);
  unsigned flags = replace ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  int result = renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, final_.c_str(), flags);
  if (result != 0 && errno == EINVAL) {  // a filesystem without these flags: the short window
    std::error_code ignored;
    if (replace) fs::remove_all(final_, ignored);
    replace = false;
    result = rename(partial_.c_str(), final_.c_str());
  }
  if (result != 0) throw_write_error(final_, errno);
  committed_ = true;
  sync_directory(parent_of(final_));
  std::error_code ignored;
  if (replace) fs::remove_all(partial_, ignored);
}

MappedFile::MappedFile(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw DataError(format("{}: {}", path, errno_text(errno)));
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw DataError(format("{}: not a regular file", path));
  }
  size_ = static_cast<size_t>(info.st_size);
  void* mapped = size_ == 0 ? nullptr : mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  int error_number = errno;
  ::close(fd);
  if (mapped == MAP_FAILED) {
    throw DataError(format("{}: cannot be mapped: {}", path, errno_text(error_number)));
  }
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

}  // namespace reigen
