#include "data/input/byte_source.h"

#include <fcntl.h>
#include <lzma.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

constexpr size_t kRawBytes = 1 << 18;
// xz -9 needs 65 MB; a file that asks for gigabytes was not made to be read here.
constexpr uint64_t kMostXzMemory = 256'000'000;
// A signal may be delivered to a thread other than the one that waits for a pipe: poll for it.
constexpr int kWaitMs = 100;

// The raw file: read in blocks, hashed and counted.
struct RawFile {
  std::string path;
  int fd = -1;
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kRawBytes);
  size_t begin = 0;
  size_t end = 0;
  uint64_t bytes = 0;
  bool ended = false;
  const std::atomic<bool>* stop = nullptr;
  Sha256 sum;

  explicit RawFile(const std::string& name) : path(name) {
    // Opening a pipe without a writer would block; fill() waits instead, and notices Ctrl-C.
    fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) throw DataError(format("{}: {}", name, errno_text(errno)));
  }
  RawFile(int open_file, const std::string& name)
      : path(name), fd(fcntl(open_file, F_DUPFD_CLOEXEC, 0)) {
    if (fd < 0) throw DataError(format("{}: {}", name, errno_text(errno)));
  }
  ~RawFile() { close(fd); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  size_t available() const { return end - begin; }

  // Makes at least `want` bytes available, or all there are at the end of the file.
  void fill(size_t want = 1) {
    if (begin == end) begin = end = 0;
    while (available() < want && !ended) {
      size_t got = read_some(buffer.get() + end, kRawBytes - end);
      sum.update(buffer.get() + end, got);
      end += got;
      bytes += got;
      ended = got == 0;
    }
  }

  size_t read_some(char* out, size_t size) const {
    while (true) {
      check_interrupt();
      if (stop != nullptr && *stop) throw Interrupted(format("{}: reading was stopped", path));
      pollfd ready = {fd, POLLIN, 0};
      int found = poll(&ready, 1, kWaitMs);
      if (found == 0 || (found < 0 && errno == EINTR)) continue;
      ssize_t got = ::read(fd, out, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR && errno != EAGAIN) {
        throw DataError(format("{}: {}", path, errno_text(errno)));
      }
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(format("{}: {} after {} bytes; download or create the file again", path, what,
                           with_commas(bytes - available())));
  }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual size_t read(RawFile& raw, char* out, size_t size) = 0;
};

class PlainDecoder : public Decoder {
 public:
  size_t read(RawFile& raw, char* out, size_t size) override {
    raw.fill();
    size_t n = std::min(size, raw.available());
    std::memcpy(out, raw.buffer.get() + raw.begin, n);
    raw.begin += n;
    return n;
  }
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw DataError("zlib cannot be initialised");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  size_t read(RawFile& raw, char* out, size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out == size) {
      raw.fill();
      if (raw.available() == 0) {
        if (!between_members_) raw.fail("gzip data ends too early");
        return 0;
      }
      if (between_members_ && raw.buffer[raw.begin] == 0) {
        skip_padding(raw);
        continue;
      }
      if (between_members_ && inflateReset(&stream_) != Z_OK)
        raw.fail("zlib cannot read the next gzip member");
      between_members_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(raw.buffer.get() + raw.begin);
      stream_.avail_in = static_cast<uInt>(raw.available());
      int result = inflate(&stream_, Z_NO_FLUSH);
      raw.begin = raw.end - stream_.avail_in;
      if (result == Z_STREAM_END) {
        between_members_ = true;  // a file may contain several members
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        raw.fail("gzip data is damaged");
      }
    }
    return size - stream_.avail_out;
  }

 private:
  // Tapes and block devices pad with zeros; `gzip -t` accepts zeros after the data and nothing
  // else.
  static void skip_padding(RawFile& raw) {
    for (; raw.available() > 0; raw.fill()) {
      for (; raw.available() > 0; ++raw.begin) {
        if (raw.buffer[raw.begin] != 0) raw.fail("gzip data is followed by other data");
      }
    }
  }

  z_stream stream_ = {};
  bool between_members_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {}
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

  size_t read(RawFile& raw, char* out, size_t size) override {
    ZSTD_outBuffer output = {out, size, 0};
    while (output.pos == 0) {
      raw.fill();
      if (raw.available() == 0) {
        if (inside_frame_) raw.fail("zstd data ends too early");
        return 0;
      }
      ZSTD_inBuffer input = {raw.buffer.get() + raw.begin, raw.available(), 0};
      size_t result = ZSTD_decompressStream(stream_, &output, &input);
      if (ZSTD_isError(result))
        raw.fail(format("zstd data is damaged ({})", ZSTD_getErrorName(result)));
      raw.begin += input.pos;
      inside_frame_ = result != 0;
    }
    return output.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool inside_frame_ = false;
};

class XzDecoder : public Decoder {
 public:
  XzDecoder() {
    if (lzma_stream_decoder(&stream_, kMostXzMemory, LZMA_CONCATENATED) != LZMA_OK) {
      throw DataError("liblzma cannot be initialised");
    }
  }
  ~XzDecoder() override { lzma_end(&stream_); }

  size_t read(RawFile& raw, char* out, size_t size) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = size;
    while (stream_.avail_out == size && !ended_) {
      raw.fill();
      stream_.next_in = reinterpret_cast<const uint8_t*>(raw.buffer.get() + raw.begin);
      stream_.avail_in = raw.available();
      lzma_ret result = lzma_code(&stream_, raw.ended ? LZMA_FINISH : LZMA_RUN);
      raw.begin = raw.end - stream_.avail_in;
      ended_ = result == LZMA_STREAM_END;
      if (result == LZMA_MEMLIMIT_ERROR) raw.fail("xz data needs more than 256 MB to unpack");
      if (result == LZMA_BUF_ERROR) raw.fail("xz data ends too early");
      if (result != LZMA_OK && !ended_) raw.fail("xz data is damaged");
    }
    return size - stream_.avail_out;
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

// Formats that are not supported; read as text they would make a corpus of noise.
void refuse_unknown_packing(const std::string& path, std::string_view head) {
  // "BZh9" alone could begin a sentence; a block or the end of the stream follows it.
  bool bzip2 = head.size() >= 10 && head.starts_with("BZh") &&
               (head.substr(4, 6) == "1AY&SY" || head.substr(4, 6) == "\x17rE8P\x90");
  if (bzip2) {
    throw DataError(format("{}: is bzip2, which is not supported; unpack it with bunzip2", path));
  }
  if (head.starts_with("PK\x03\x04")) {
    throw DataError(
        format("{}: is a zip archive, which is not supported; unpack it with unzip", path));
  }
}

std::unique_ptr<Decoder> make_decoder(RawFile& raw) {
  // Reading ahead would delay the answer to a short typed line.
  if (isatty(raw.fd) == 1) return std::make_unique<PlainDecoder>();
  raw.fill(10);  // the longest magic below; a pipe may return fewer bytes at a time
  std::string_view head(raw.buffer.get(), raw.end);
  if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipDecoder>();
  if (head.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<ZstdDecoder>();
  // pzstd puts a skippable frame before each frame: 0x184D2A50 to 0x184D2A5F.
  bool skippable =
      head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18";
  if (skippable) return std::make_unique<ZstdDecoder>();
  if (head.starts_with(std::string_view("\xfd"
                                        "7zXZ\0",
                                        6))) {
    return std::make_unique<XzDecoder>();
  }
  refuse_unknown_packing(raw.path, head);
  return std::make_unique<PlainDecoder>();
}

}  // namespace

struct ByteSource::Impl {
  RawFile raw;
  std::unique_ptr<Decoder> decoder;
  explicit Impl(const std::string& path) : raw(path), decoder(make_decoder(raw)) {}
  Impl(int fd, const std::string& name) : raw(fd, name), decoder(make_decoder(raw)) {}
};

ByteSource::ByteSource(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ByteSource::ByteSource(int fd, const std::string& name) : impl_(std::make_unique<Impl>(fd, name)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;

size_t ByteSource::read(char* out, size_t size) {
  return impl_->decoder->read(impl_->raw, out, size);
}
void ByteSource::stop_on(const std::atomic<bool>* stop) { impl_->raw.stop = stop; }
const std::string& ByteSource::path() const { return impl_->raw.path; }
bool ByteSource::is_regular_file() const {
  struct stat facts = {};
  return fstat(impl_->raw.fd, &facts) == 0 && S_ISREG(facts.st_mode);
}
uint64_t ByteSource::raw_bytes_read() const { return impl_->raw.bytes; }

InputFile ByteSource::describe() {
  RawFile& raw = impl_->raw;
  while (!raw.ended) {  // bytes after the last compressed frame belong to the file, too
    raw.begin = raw.end;
    raw.fill();
  }
  return {raw.path, raw.bytes, raw.sum.hex()};
}

}  // namespace reigen
