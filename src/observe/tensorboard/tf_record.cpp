#include "observe/tensorboard/tf_record.h"

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

constexpr size_t kHeadBytes = 12;
constexpr size_t kTailBytes = 4;

// TFRecord masks its checksums because a CRC over data that contains CRCs is weak.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <class T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::string frame_record(std::string_view payload) {
  std::string record;
  record.reserve(kHeadBytes + payload.size() + kTailBytes);
  put<uint64_t>(record, payload.size());
  put<uint32_t>(record, masked_crc(record));
  record += payload;
  put<uint32_t>(record, masked_crc(payload));
  return record;
}

TfRecordReader::TfRecordReader(const std::string& path) : in_(path, std::ios::binary) {
  if (!in_) throw DataError(format("{}: cannot be opened", path));
  size_ = file_size(path);
}

TfRecordReader::Next TfRecordReader::next(std::string& payload) {
  const uint64_t left = size_ - end_;
  if (left == 0) return Next::kEnd;
  if (left < kHeadBytes) return Next::kTorn;
  std::string head(kHeadBytes, '\0');
  if (!in_.read(head.data(), kHeadBytes)) return Next::kTorn;
  const std::string_view length_bytes = std::string_view(head).substr(0, 8);
  if (get<uint32_t>(head.substr(8)) != masked_crc(length_bytes)) return Next::kDamaged;
  const auto length = get<uint64_t>(length_bytes);
  if (left - kHeadBytes < kTailBytes || length > left - kHeadBytes - kTailBytes) return Next::kTorn;
  payload.resize(length);
  std::string tail(kTailBytes, '\0');
  if (!in_.read(payload.data(), static_cast<std::streamsize>(length))) return Next::kTorn;
  if (!in_.read(tail.data(), kTailBytes)) return Next::kTorn;
  if (get<uint32_t>(tail) != masked_crc(payload)) return Next::kDamaged;
  end_ += kHeadBytes + length + kTailBytes;
  return Next::kRecord;
}

}  // namespace reigen
