#include "dist/group/block_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace reigen {
namespace {

constexpr size_t kScaleBytes = 2;
constexpr float kSmallest = 0x1p-100F;  // below it a block is zeros: its scale has no inverse
constexpr uint16_t kNotFinite = 0x7FC0;

float float_of(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }

size_t packed_bytes(int bits, size_t values) {
  return (values * static_cast<size_t>(bits) + 7) / 8;
}

// The scale is rounded up, so that no value exceeds the largest integer. Without the sign, floats
// order like their bits, whose maximum compilers vectorise.
uint16_t scale_of(const float* values, size_t count, float most) {
  int32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7FFFFFFF);
  }
  if (largest >= std::bit_cast<int32_t>(INFINITY)) return kNotFinite;
  const auto size = std::bit_cast<float>(largest);
  if (size < kSmallest) return 0;
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(size / most) + 0xFFFF) >> 16);
}

// To the nearest integer within 2^21, ties to even: at kShift floats are spaced by 1.
int32_t rounded(float x) {
  constexpr float kShift = 0x1.8p23F;
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + kShift) -
                              std::bit_cast<uint32_t>(kShift));
}

struct Eight {
  static constexpr float kMost = 127;
  static void pack(const int32_t* in, size_t count, std::byte* out) {
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(in[i]);
  }
  static void unpack(const std::byte* in, size_t count, int32_t* out) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): numbers with a sign, not characters
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(in[i]);
  }
};

// The first half of a block is in the low four bits of its bytes.
struct Four {
  static constexpr float kMost = 7;
  static void pack(const int32_t* in, size_t count, std::byte* out) {
    const size_t half = count / 2;
    for (size_t i = 0; i < half; ++i) {
      out[i] = static_cast<std::byte>((in[i] & 15) | ((in[half + i] & 15) << 4));
    }
    if (count % 2 != 0) out[half] = static_cast<std::byte>(in[count - 1] & 15);
  }
  static void unpack(const std::byte* in, size_t count, int32_t* out) {
    const size_t half = count / 2;
    for (size_t i = 0; i < half; ++i) {
      const auto both = static_cast<int32_t>(in[i]);
      out[i] = ((both & 15) ^ 8) - 8;
      out[half + i] = ((both >> 4) ^ 8) - 8;
    }
    if (count % 2 != 0) out[count - 1] = ((static_cast<int32_t>(in[half]) & 15) ^ 8) - 8;
  }
};

// `count` is a constant for a whole block, so that its loops vectorise without a remainder.
template <class Format>
inline void pack_block(const float* values, size_t count, std::byte* out) {
  std::array<int32_t, kBlockValues> integers;
  const uint16_t scale = scale_of(values, count, Format::kMost);
  std::memcpy(out, &scale, kScaleBytes);
  if (scale == 0 || scale == kNotFinite) {
    integers.fill(0);
  } else {
    const float inverse = 1 / float_of(scale);
    for (size_t i = 0; i < count; ++i) integers[i] = rounded(values[i] * inverse);
  }
  Format::pack(integers.data(), count, out + kScaleBytes);
}

template <class Format>
inline void unpack_block(const std::byte* in, size_t count, float* values) {
  std::array<int32_t, kBlockValues> integers;
  uint16_t bits = 0;
  std::memcpy(&bits, in, kScaleBytes);
  const float scale = float_of(bits);
  Format::unpack(in + kScaleBytes, count, integers.data());
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(integers[i]) * scale;
}

template <class Format>
void pack_all(std::span<const float> values, std::byte* out, size_t each) {
  size_t at = 0;
  for (; at + kBlockValues <= values.size(); at += kBlockValues, out += each) {
    pack_block<Format>(values.data() + at, kBlockValues, out);
  }
  if (at < values.size()) pack_block<Format>(values.data() + at, values.size() - at, out);
}

template <class Format>
void unpack_all(const std::byte* in, std::span<float> values, size_t each) {
  size_t at = 0;
  for (; at + kBlockValues <= values.size(); at += kBlockValues, in += each) {
    unpack_block<Format>(in, kBlockValues, values.data() + at);
  }
  if (at < values.size()) unpack_block<Format>(in, values.size() - at, values.data() + at);
}

}  // namespace

size_t block_bytes(int bits, size_t values) {
  const size_t whole = values / kBlockValues;
  const size_t rest = values % kBlockValues;
  return whole * (kScaleBytes + packed_bytes(bits, kBlockValues)) +
         (rest > 0 ? kScaleBytes + packed_bytes(bits, rest) : 0);
}

void to_blocks(int bits, std::span<const float> values, std::byte* out) {
  const size_t each = block_bytes(bits, kBlockValues);
  bits == 8 ? pack_all<Eight>(values, out, each) : pack_all<Four>(values, out, each);
}

void from_blocks(int bits, const std::byte* in, std::span<float> values) {
  const size_t each = block_bytes(bits, kBlockValues);
  bits == 8 ? unpack_all<Eight>(in, values, each) : unpack_all<Four>(in, values, each);
}

}  // namespace reigen
