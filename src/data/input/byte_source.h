// A file as a stream of plain bytes, whatever it is compressed with. A door to zlib, zstd, liblzma.
//
// The kind is told by the first bytes, not by the name. The raw file is hashed as it is read, so
// the manifest can name exactly what went in. A truncated or damaged file is an error, never a
// short read. Pipes do as well as files: everything is read once, front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

// Of a longer line (or TMX segment, or PO string) one byte more than this is kept and the rest is
// read past, so that a file without newlines takes no more memory than any other. Whoever uses a
// line must drop one with size() > kMaxLineBytes: its end is missing.
constexpr size_t kMaxLineBytes = 1 << 18;

// What went in, so that it can be told apart later.
struct InputFile {
  std::string path;
  uint64_t bytes = 0;
  std::string sha256;
};

class ByteSource {
 public:
  explicit ByteSource(const std::string& path);
  // An open file, such as standard input, from where it stands; `name` is for messages. The caller
  // keeps `fd`. A terminal is read as it is typed and never taken for a compressed file.
  ByteSource(int fd, const std::string& name);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;

  // Up to `size` plain bytes; 0 at the end. Throws DataError naming the file.
  size_t read(char* out, size_t size);

  const std::string& path() const;
  uint64_t raw_bytes_read() const;  // for progress
  InputFile describe();             // the raw file; reads on to its end; call once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Lines without their end ("\n" or "\r\n"), cut as kMaxLineBytes says (or the limit given instead);
// a byte order mark at the start of the file is dropped. UTF-16 and UTF-32 are errors.
class LineReader {
 public:
  explicit LineReader(const std::string& path);
  explicit LineReader(ByteSource source, size_t most_bytes = kMaxLineBytes);

  bool next(std::string& line);
  uint64_t lines() const { return lines_; }
  ByteSource& source() { return source_; }
  const ByteSource& source() const { return source_; }

 private:
  ByteSource source_;
  size_t most_bytes_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t lines_ = 0;
};

}  // namespace reigen
