// Floats as they travel: fp32 as they are, bf16 and fp16 rounded to the nearest, ties to even, and
// integers in blocks (block_format.h).
//
// A value too large for fp16 (65,504) becomes infinite and makes the sum so; the step is then
// skipped as one with a gradient that is not finite. bf16 has fp32's range.
#pragma once

#include <cstddef>
#include <span>

#include "dist/group/group.h"

namespace reigen {

// Of so many values; those of a range begin where whole blocks before it end.
size_t wire_bytes(Wire wire, size_t values);

// `out` holds wire_bytes(wire, values.size()), and need not be aligned to more than a value.
void to_wire(Wire wire, std::span<const float> values, std::byte* out);
void from_wire(Wire wire, const std::byte* in, std::span<float> values);

// sum += what is in `in`.
void add_from_wire(Wire wire, const std::byte* in, std::span<float> sum);

}  // namespace reigen
