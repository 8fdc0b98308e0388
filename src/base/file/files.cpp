#include "base/file/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/file/own_file.h"
#include "base/format.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 1 << 20;
constexpr const char* kLockText = "reigen is writing the directory beside this file\n";

void sync_directory(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_write_error(path, errno);
  int result = fsync(fd);
  int error_number = errno;
  ::close(fd);
  // Some filesystems cannot sync a directory and return EINVAL; the rename is still atomic there.
  if (result != 0 && error_number != EINVAL) throw_write_error(path, error_number);
}

std::string parent_of(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// Without a trailing slash, and with `.`, `..` and links resolved, so that a rename replaces the
// directory and not its name.
std::string resolved(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty()) throw ConfigError("--output is empty; name a directory to write");
  const std::string name = fs::path(path).filename();
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && !path_exists(path)) {
    throw ConfigError(
        format("{}: is a dangling link; remove it or choose a different --output", path));
  }
  if (name == "." || name == ".." || fs::is_symlink(path, ignored)) {
    return fs::weakly_canonical(path);
  }
  return path;
}

}  // namespace

namespace {

// Reads to the end and closes.
std::string read_all(int fd, const std::string& path, uint64_t most) {
  const auto refuse = [&] {
    throw DataError(format("{}: is longer than the limit of {}", path, human_bytes(most)));
  };
  struct stat info = {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<uint64_t>(info.st_size) > most) {
    ::close(fd);
    refuse();
  }
  std::string text;
  std::vector<char> buffer(kBufferBytes);
  ssize_t got = 0;
  while ((got = read(fd, buffer.data(), buffer.size())) > 0 && text.size() <= most) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  int error_number = errno;
  ::close(fd);
  if (got < 0) throw DataError(format("{}: {}", path, errno_text(error_number)));
  if (text.size() > most) refuse();
  return text;
}

}  // namespace

std::string read_file(const std::string& path, uint64_t most) {
  return read_all(open_for_reading(path), path, most);
}

std::string read_own_file(const std::string& path, uint64_t most) {
  return read_all(open_own_for_reading(path), path, most);
}

std::string read_file_or_pipe(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw DataError(format("{}: {}", path, errno_text(errno)));
  return read_all(fd, path, UINT64_MAX);
}

std::string sha256_of_file(const std::string& path) {
  const int fd = open_for_reading(path);
  Sha256 sum;
  std::vector<char> buffer(kBufferBytes);
  ssize_t got = 0;
  while ((got = read(fd, buffer.data(), buffer.size())) > 0) {
    sum.update(buffer.data(), static_cast<size_t>(got));
  }
  const int error_number = errno;
  ::close(fd);
  if (got < 0) throw IoError(format("{}: cannot be read: {}", path, errno_text(error_number)));
  return sum.hex();
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
  fd_ = open_own_file(path_, O_WRONLY | O_CREAT | O_TRUNC);
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

StagedDirectory::StagedDirectory(std::string final_path, bool overwrite, OutputName name)
    : final_(name == OutputName::kOwn ? std::move(final_path) : resolved(std::move(final_path))),
      partial_(final_ + ".partial"),
      overwrite_(overwrite),
      name_(name) {
  refuse_link();
  if (path_exists(final_)) check_replaceable();
  make_parents();
  try {
    const bool left_by_us = lock();
    struct stat there = {};
    if (lstat(partial_.c_str(), &there) == 0 && !left_by_us) {
      unlink((partial_ + ".lock").c_str());
      throw ConfigError(
          format("{}: already exists and was not written by reigen; move it or choose a different "
                 "--output",
                 partial_));
    }
    std::error_code error;
    fs::remove_all(partial_, error);
    if (error || mkdir(partial_.c_str(), 0777) != 0) {
      int error_number = error ? error.value() : errno;
      unlink((partial_ + ".lock").c_str());
      throw_write_error(partial_, error_number);
    }
  } catch (...) {
    if (lock_fd_ >= 0) ::close(lock_fd_);
    remove_parents();
    throw;
  }
}

void StagedDirectory::refuse_link() const {
  std::error_code ignored;
  if (name_ != OutputName::kOwn || !fs::is_symlink(fs::symlink_status(final_, ignored))) return;
  throw IoError(format("{}: is a symbolic link, which is not followed here; remove it", final_));
}

void StagedDirectory::check_replaceable() const {
  if (!overwrite_) {
    throw ConfigError(
        format("{}: already exists; choose a different --output or pass --overwrite", final_));
  }
  if (!is_directory(final_)) {
    throw ConfigError(format("{}: is not a directory; choose a different --output", final_));
  }
  struct stat here = {};
  struct stat above = {};
  bool mounted = stat(final_.c_str(), &here) == 0 && stat(parent_of(final_).c_str(), &above) == 0 &&
                 here.st_dev != above.st_dev;
  if (mounted) {
    throw ConfigError(
        format("{}: is a mount point and cannot be replaced; choose a directory below it", final_));
  }
  std::set<std::string> ours = {kMarker};
  const std::string marker = final_ + "/" + kMarker;
  if (path_exists(marker)) {
    constexpr uint64_t kMostMarkerBytes = 16 << 20;
    std::istringstream lines(read_file(marker, kMostMarkerBytes));
    for (std::string line; std::getline(lines, line);) ours.insert(line);
  }
  for (const auto& entry : fs::directory_iterator(final_)) {
    const std::string name = entry.path().filename();
    if (!ours.contains(name) || !entry.is_regular_file()) {
      throw ConfigError(format(
          "{}: contains {}, which reigen did not write; --overwrite replaces only files that "
          "reigen wrote: move it or choose a different --output",
          final_, name));
    }
  }
}

void StagedDirectory::make_parents() {
  std::vector<std::string> missing;
  for (std::string at = parent_of(final_); !path_exists(at); at = parent_of(at)) {
    missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    if (mkdir(at->c_str(), 0777) != 0 && errno != EEXIST) {
      int error_number = errno;
      remove_parents();
      throw_write_error(*at, error_number);
    }
    made_parents_.push_back(*at);
  }
}

void StagedDirectory::remove_parents() {
  for (auto at = made_parents_.rbegin(); at != made_parents_.rend(); ++at) rmdir(at->c_str());
}

// The lock is beside the directory, not in it: the renamed directory must not contain it.
bool StagedDirectory::lock() {
  const std::string path = partial_ + ".lock";
  lock_fd_ = open_lock_file(path, [](std::string_view text) { return text == kLockText; });
  const bool existed = !lock_text(lock_fd_).empty();
  if (!take_lock(lock_fd_, path)) {
    throw ConfigError(format(
        "{}: a different reigen process is writing it; wait for it or choose a different --output",
        final_));
  }
  const std::string_view text = kLockText;
  bool marked = ftruncate(lock_fd_, 0) == 0 &&
                pwrite(lock_fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!marked) {
    int error_number = errno;
    unlink(path.c_str());
    throw_write_error(path, error_number);
  }
  return existed;
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(partial_, ignored);
  unlink((partial_ + ".lock").c_str());
  ::close(lock_fd_);
  if (!committed_) remove_parents();
}

void StagedDirectory::write_marker() const {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(partial_)) {
    names.insert(entry.path().filename());
  }
  FileWriter marker(file(kMarker));
  for (const auto& name : names) marker.write(name + "\n");
  marker.close();
}

void StagedDirectory::commit() {
  write_marker();
  sync_directory(partial_);
  refuse_link();
  if (path_exists(final_)) {
    check_replaceable();  // it may have changed since the start
    replace_final();
  } else if (rename(partial_.c_str(), final_.c_str()) != 0) {
    throw_write_error(final_, errno);
  }
  committed_ = true;
  sync_directory(parent_of(final_));
}

// Exchanges old and new atomically if the filesystem can. If not (NFS), the old directory is
// renamed first, and renamed back if the new one cannot take its place.
void StagedDirectory::replace_final() {
  std::error_code ignored;
  if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(partial_, ignored);
    return;
  }
  const std::string aside = final_ + ".old";
  if (rename(final_.c_str(), aside.c_str()) != 0) throw_write_error(aside, errno);
  if (rename(partial_.c_str(), final_.c_str()) != 0) {
    int error_number = errno;
    rename(aside.c_str(), final_.c_str());
    throw_write_error(final_, error_number);
  }
  fs::remove_all(aside, ignored);
}

MappedFile::MappedFile(const std::string& path) {
  const int fd = open_for_reading(path);
  struct stat info = {};
  if (fstat(fd, &info) == 0) size_ = static_cast<size_t>(info.st_size);
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

void MappedFile::forget(std::span<const std::byte> bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(bytes.data() - data_);
  const size_t first = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes.size()) / page * page;
  // Nothing is lost where the kernel refuses.
  if (first < end) madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

}  // namespace reigen
