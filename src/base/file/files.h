// Files that are complete or absent: checked writes, staged directories, read-only mappings.
//
// Every write is checked and every failure names the file and the reason. A directory is built
// under a temporary name, synced, then renamed: after a crash no directory looks complete that is
// not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace reigen {

// The whole file; throws DataError when it is missing, no regular file, longer than `most` bytes,
// or cannot be read.
std::string read_file(const std::string& path, uint64_t most = UINT64_MAX);

// The same for a file of a run, which may not be a link (open_own_for_reading()).
std::string read_own_file(const std::string& path, uint64_t most = UINT64_MAX);

// Like read_file() for a path that the user gave: also a pipe, as in `--config <(...)`, which may
// wait.
std::string read_file_or_pipe(const std::string& path);

// SHA-256 of a file, read in blocks: memory does not grow with its size.
std::string sha256_of_file(const std::string& path);

bool path_exists(const std::string& path);
bool is_directory(const std::string& path);
uint64_t file_size(const std::string& path);

// A new file, buffered and hashed as it is written. close() flushes and syncs; a writer destroyed
// without close() leaves an incomplete file, for the owner of the directory to remove.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void close();

  uint64_t bytes() const { return bytes_; }
  const std::string& sha256() const { return digest_; }  // valid after close()
  const std::string& path() const { return path_; }

 private:
  void flush();

  std::string path_;
  int fd_ = -1;
  std::vector<char> buffer_;
  uint64_t bytes_ = 0;
  Sha256 sum_;
  std::string digest_;
};

// A link at a name that the user gave leads to the directory that is replaced. At a name of
// Reigen's own, in a directory that may come from elsewhere, it leads anywhere: it is an error,
// IoError.
enum class OutputName { kOfUser, kOwn };

// `final_path` appears complete or not at all. It is built in `final_path + ".partial"`. A lock
// file beside that excludes a second writer and marks the directory as Reigen's, so that the
// remains of a crash can be replaced.
//
// A finished directory contains a file `.reigen` that lists its files. Only such a directory is
// ever replaced, and only if it contains no other file: a user's notes or inputs are never deleted.
class StagedDirectory {
 public:
  StagedDirectory(std::string final_path, bool overwrite, OutputName name = OutputName::kOfUser);
  ~StagedDirectory();  // removes the partial directory unless commit() was called
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  const std::string& path() const { return partial_; }  // while it is being built
  std::string file(const std::string& name) const { return partial_ + "/" + name; }
  void commit();

  static constexpr const char* kMarker = ".reigen";

 private:
  void refuse_link() const;
  void check_replaceable() const;
  void make_parents();
  void remove_parents();
  bool lock();  // whether the lock file was there before
  void write_marker() const;
  void replace_final();

  std::string final_;
  std::string partial_;
  bool overwrite_;
  OutputName name_;
  int lock_fd_ = -1;
  bool committed_ = false;
  std::vector<std::string> made_parents_;  // outermost first
};

// A whole file mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives back the memory of whole pages of these bytes, which are read again when they are used.
  void forget(std::span<const std::byte> bytes) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reigen
