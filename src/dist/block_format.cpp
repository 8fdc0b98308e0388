#include "dist/block_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace reigen {
namespace {

constexpr size_t kScaleBytes = 2;
constexpr float kNothing = 0x1p-100F;  // smaller blocks are zeros: their scale has no inverse
constexpr uint16_t kNotFinite = 0x7FC0;

float float_of(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }

size_t packed_bytes(int bits, size_t values) {
  return (values * static_cast<size_t>(bits) + 7) / 8;
}

// Up, so that no value is beyond the last integer.
uint16_t scale_of(std::span<const float> values, float most) {
  float largest = 0;
  float finite = 0;
  for (const float x : values) {
    largest = std::max(largest, std::abs(x));
    finite += 0 * x;  // NaN when x is not finite
  }
  if (finite != 0) return kNotFinite;
  if (largest < kNothing) return 0;
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(largest / most) + 0xFFFF) >> 16);
}

// To the nearest integer within 2^21, ties to even: where a float's own unit is 1.
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
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(in[i]);
  }
};

// The first half of a block in the low halves of its bytes.
struct Four {
  static constexpr float kMost = 7;
  static void pack(const int32_t* in, size_t count, std::byte* out) {
    const size_t half = (count + 1) / 2;
    for (size_t i = 0; i < half; ++i) {
      const int32_t high = half + i < count ? in[half + i] : 0;
      out[i] = static_cast<std::byte>((in[i] & 15) | ((high & 15) << 4));
    }
  }
  static void unpack(const std::byte* in, size_t count, int32_t* out) {
    const size_t half = (count + 1) / 2;
    for (size_t i = 0; i < half; ++i) {
      const auto both = static_cast<int32_t>(in[i]);
      out[i] = ((both & 15) ^ 8) - 8;
      if (half + i < count) out[half + i] = ((both >> 4) ^ 8) - 8;
    }
  }
};

template <class Format>
void pack_block(std::span<const float> values, std::byte* out) {
  std::array<int32_t, kBlockValues> integers;
  const uint16_t scale = scale_of(values, Format::kMost);
  const float inverse = scale == 0 || scale == kNotFinite ? 0 : 1 / float_of(scale);
  if (inverse == 0) {
    integers.fill(0);
  } else {
    for (size_t i = 0; i < values.size(); ++i) integers[i] = rounded(values[i] * inverse);
  }
  std::memcpy(out, &scale, kScaleBytes);
  Format::pack(integers.data(), values.size(), out + kScaleBytes);
}

template <class Format>
void unpack_block(const std::byte* in, std::span<float> values) {
  std::array<int32_t, kBlockValues> integers;
  uint16_t bits = 0;
  std::memcpy(&bits, in, kScaleBytes);
  const float scale = float_of(bits);
  Format::unpack(in + kScaleBytes, values.size(), integers.data());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(integers[i]) * scale;
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
  for (size_t at = 0; at < values.size(); at += kBlockValues, out += each) {
    const auto block = values.subspan(at, std::min(kBlockValues, values.size() - at));
    bits == 8 ? pack_block<Eight>(block, out) : pack_block<Four>(block, out);
  }
}

void from_blocks(int bits, const std::byte* in, std::span<float> values) {
  const size_t each = block_bytes(bits, kBlockValues);
  for (size_t at = 0; at < values.size(); at += kBlockValues, in += each) {
    const auto block = values.subspan(at, std::min(kBlockValues, values.size() - at));
    bits == 8 ? unpack_block<Eight>(in, block) : unpack_block<Four>(in, block);
  }
}

}  // namespace reigen
