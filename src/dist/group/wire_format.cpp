#include "dist/group/wire_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "dist/group/block_format.h"

namespace reigen {
namespace {

uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet_nan : rounded);
}

float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void to_bf16(const float* in, size_t count, uint16_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = bf16_of(in[i]);
}

void from_bf16(const uint16_t* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float_of_bf16(in[i]);
}

// fp16: 1 sign, 5 exponent (bias 15) and 10 mantissa bits.
uint16_t fp16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);   // NaN
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65,520 rounds up
  if (magnitude < 0x38800000) {
    // Below 2^-14 the spacing is 2^-24, which is also that of fp32 at 0.5: adding 0.5 rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000));
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

float float_of_fp16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FF;
  if (exponent == 0) {
    const float small = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(small) | sign);
  }
  const uint32_t wide = exponent == 31 ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

#ifdef __x86_64__

// Every processor with AVX2 has F16C; clang 14 has no name for F16C in __builtin_cpu_supports.
bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

__attribute__((target("avx,f16c"))) size_t to_fp16_fast(const float* in, size_t count,
                                                        uint16_t* out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  return i;
}

__attribute__((target("avx,f16c"))) size_t from_fp16_fast(const uint16_t* in, size_t count,
                                                          float* out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

#else

bool has_f16c() { return false; }
size_t to_fp16_fast(const float*, size_t, uint16_t*) { return 0; }
size_t from_fp16_fast(const uint16_t*, size_t, float*) { return 0; }

#endif

void to_fp16(const float* in, size_t count, uint16_t* out) {
  size_t i = has_f16c() ? to_fp16_fast(in, count, out) : 0;
  for (; i < count; ++i) out[i] = fp16_of(in[i]);
}

void from_fp16(const uint16_t* in, size_t count, float* out) {
  size_t i = has_f16c() ? from_fp16_fast(in, count, out) : 0;
  for (; i < count; ++i) out[i] = float_of_fp16(in[i]);
}

}  // namespace

size_t wire_bytes(Wire wire, size_t values) {
  switch (wire) {
    case Wire::kFp32:
      return 4 * values;
    case Wire::kBf16:
    case Wire::kFp16:
      return 2 * values;
    case Wire::kInt8:
      return block_bytes(8, values);
    case Wire::kInt4:
      return block_bytes(4, values);
  }
  return 0;
}

void to_wire(Wire wire, std::span<const float> values, std::byte* out) {
  switch (wire) {
    case Wire::kFp32:
      std::memcpy(out, values.data(), values.size_bytes());
      return;
    case Wire::kBf16:
      to_bf16(values.data(), values.size(), reinterpret_cast<uint16_t*>(out));
      return;
    case Wire::kFp16:
      to_fp16(values.data(), values.size(), reinterpret_cast<uint16_t*>(out));
      return;
    case Wire::kInt8:
      return to_blocks(8, values, out);
    case Wire::kInt4:
      return to_blocks(4, values, out);
  }
}

void from_wire(Wire wire, const std::byte* in, std::span<float> values) {
  switch (wire) {
    case Wire::kFp32:
      std::memcpy(values.data(), in, values.size_bytes());
      return;
    case Wire::kBf16:
      from_bf16(reinterpret_cast<const uint16_t*>(in), values.size(), values.data());
      return;
    case Wire::kFp16:
      from_fp16(reinterpret_cast<const uint16_t*>(in), values.size(), values.data());
      return;
    case Wire::kInt8:
      return from_blocks(8, in, values);
    case Wire::kInt4:
      return from_blocks(4, in, values);
  }
}

void add_from_wire(Wire wire, const std::byte* in, std::span<float> sum) {
  if (wire == Wire::kFp32) {
    const auto* values = reinterpret_cast<const float*>(in);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    return;
  }
  std::array<float, 1024> block;  // fits the L1 cache
  for (size_t at = 0; at < sum.size(); at += block.size()) {
    const size_t now = std::min(block.size(), sum.size() - at);
    from_wire(wire, in + wire_bytes(wire, at), {block.data(), now});
    for (size_t i = 0; i < now; ++i) sum[at + i] += block[i];
  }
}

}  // namespace reigen
