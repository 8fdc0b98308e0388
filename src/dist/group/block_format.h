// Block quantisation of floats to 8 or 4 bits: blocks of 64 values with one scale each, so that a
// large value reduces the precision of its block only.
//
// A block is its scale in bf16, then its values as integers, rounded to the nearest. A non-finite
// value makes its whole block non-finite.
#pragma once

#include <cstddef>
#include <span>

namespace reigen {

inline constexpr size_t kBlockValues = 64;

// `bits` is 8 or 4. The last block of a range may be shorter.
size_t block_bytes(int bits, size_t values);
void to_blocks(int bits, std::span<const float> values, std::byte* out);
void from_blocks(int bits, const std::byte* in, std::span<float> values);

}  // namespace reigen
