// A file, compressed or not, as a stream of plain bytes. A door to zlib, zstd, liblzma.
//
// The compression is recognised by the first bytes, not by the file name. The raw file is hashed as
// it is read, for the manifest. A truncated or damaged file is an error, never a short read. Pipes
// work like files: everything is read once, front to back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

// An input as the manifest records it.
struct InputFile {
  std::string path;
  uint64_t bytes = 0;
  std::string sha256;
};

class ByteSource {
 public:
  explicit ByteSource(const std::string& path);
  // An open file such as standard input, from its current position; `name` is for messages. The
  // caller still owns `fd`. A terminal is read line by line and never taken for a compressed file.
  ByteSource(int fd, const std::string& name);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;

  // Up to `size` plain bytes; 0 at the end. Throws DataError naming the file.
  size_t read(char* out, size_t size);

  // Once *stop is true, a read that waits for more bytes throws Interrupted. `stop` must
  // outlive the source, or be replaced by null.
  void stop_on(const std::atomic<bool>* stop);

  const std::string& path() const;
  bool is_regular_file() const;     // no pipe, terminal or device
  uint64_t raw_bytes_read() const;  // for progress
  InputFile describe();             // of the raw file; reads to its end; call once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
