// Floats as a few bits each: blocks of 64 with a scale of their own, so that one large value costs
// only its neighbours their detail.
//
// A block is its scale in bf16, then its values as integers of 8 or 4 bits, rounded to the nearest.
// A value that is not finite makes its whole block so.
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
