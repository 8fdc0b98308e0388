// The frame of a message between two ranks: a header of 16 bytes, then the payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reigen {

enum class FrameKind : uint8_t { kData = 1, kGoodbye = 2 };

struct Frame {
  FrameKind kind = FrameKind::kData;
  uint64_t slot = 0;
  uint32_t bytes = 0;
  bool operator==(const Frame&) const = default;
};

inline constexpr size_t kFrameBytes = 16;
inline constexpr uint32_t kMostPayload = uint32_t{64} << 20;

using FrameHeader = std::array<std::byte, kFrameBytes>;
FrameHeader encode_frame(const Frame& frame);
// Nothing if the header is invalid: a wrong mark or kind, or a payload above kMostPayload.
std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> header);

}  // namespace reigen
