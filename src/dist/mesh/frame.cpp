#include "dist/mesh/frame.h"

namespace reigen {
namespace {

constexpr auto kMark = std::byte{0x52};  // the first byte of every frame

template <class T>
void put(std::byte* at, T value) {
  for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(const std::byte* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(at[i]) << (8 * i);
  return value;
}

}  // namespace

// mark, kind, two zeros, payload bytes (32 bits), slot (64 bits), little-endian.
FrameHeader encode_frame(const Frame& frame) {
  FrameHeader header = {};
  header[0] = kMark;
  header[1] = static_cast<std::byte>(frame.kind);
  put(&header[4], frame.bytes);
  put(&header[8], frame.slot);
  return header;
}

std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> header) {
  Frame frame;
  frame.kind = static_cast<FrameKind>(header[1]);
  frame.bytes = get<uint32_t>(&header[4]);
  frame.slot = get<uint64_t>(&header[8]);
  const bool known = frame.kind == FrameKind::kData || frame.kind == FrameKind::kGoodbye;
  if (header[0] != kMark || !known || header[2] != std::byte{0} || header[3] != std::byte{0} ||
      frame.bytes > kMostPayload || (frame.kind == FrameKind::kGoodbye && frame.bytes > 0)) {
    return std::nullopt;
  }
  return frame;
}

}  // namespace reigen
