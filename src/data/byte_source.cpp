#include "data/byte_source.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

constexpr size_t kRawBytes = 1 << 18;
constexpr size_t kLineBytes = 1 << 16;
// xz -9 needs 65 MB; a file that asks for gigabytes was not made to be read here.
constexpr uint64_t kMostXzMemory = 256'000'000;

// The raw file: read in pieces, hashed, and counted.
struct RawFile {
  std::string path;
  int fd = -1;
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kRawBytes);
  size_t begin = 0;
  size_t end = 0;
  uint64_t bytes = 0;
  bool ended = false;
  Sha256 sum;

  explicit RawFile(const std::string& name) : path(name) {
    fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw DataError(format("{}: {}", name, errno_text(errno)));
  }
  ~RawFile() { close(fd); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  size_t available() const { return end - begin; }

  // Makes at least one byte available, or none at the end of the file.
  void fill() {
    if (begin < end || ended) return;
    ssize_t got;
    do {
      got = ::read(fd, buffer.get(), kRawBytes);
    } while (got < 0 && errno == EINTR);
    if (got < 0) throw DataError(format("{}: {}", path, errno_text(errno)));
    begin = 0;
    end = static_cast<size_t>(got);
    ended = got == 0;
    bytes += end;
    sum.update(buffer.get(), end);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(format("{}: {} after {} bytes; fetch or make the file again", path, what,
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
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw DataError("zlib cannot start");
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
      if (between_members_ && inflateReset(&stream_) != Z_OK) raw.fail("zlib cannot go on");
      between_members_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(raw.buffer.get() + raw.begin);
      stream_.avail_in = static_cast<uInt>(raw.available());
      int result = inflate(&stream_, Z_NO_FLUSH);
      raw.begin = raw.end - stream_.avail_in;
      if (result == Z_STREAM_END) {
        between_members_ = true;  // a file may hold several members one after the other
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        raw.fail("gzip data is damaged");
      }
    }
    return size - stream_.avail_out;
  }

 private:
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
      throw DataError("liblzma cannot start");
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

std::unique_ptr<Decoder> make_decoder(RawFile& raw) {
  raw.fill();
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
  return std::make_unique<PlainDecoder>();
}

}  // namespace

struct ByteSource::Impl {
  RawFile raw;
  std::unique_ptr<Decoder> decoder;
  explicit Impl(const std::string& path) : raw(path), decoder(make_decoder(raw)) {}
};

ByteSource::ByteSource(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;

size_t ByteSource::read(char* out, size_t size) {
  return impl_->decoder->read(impl_->raw, out, size);
}
const std::string& ByteSource::path() const { return impl_->raw.path; }
uint64_t ByteSource::raw_bytes_read() const { return impl_->raw.bytes; }

InputFile ByteSource::describe() {
  RawFile& raw = impl_->raw;
  while (!raw.ended) {  // what follows the last compressed frame belongs to the file, too
    raw.begin = raw.end;
    raw.fill();
  }
  return {raw.path, raw.bytes, raw.sum.hex()};
}

LineReader::LineReader(const std::string& path)
    : source_(path), buffer_(std::make_unique_for_overwrite<char[]>(kLineBytes)) {}

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  while (true) {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = source_.read(buffer_.get(), kLineBytes);
      if (end_ == 0) break;
    }
    any = true;
    const char* from = buffer_.get() + begin_;
    const char* newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
    size_t n = newline == nullptr ? end_ - begin_ : static_cast<size_t>(newline - from);
    line.append(from, n);
    begin_ += n + (newline == nullptr ? 0 : 1);
    if (newline != nullptr) break;
  }
  if (!any) return false;
  if (line.ends_with('\r')) line.pop_back();
  if (lines_ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  ++lines_;
  return true;
}

}  // namespace reigen
