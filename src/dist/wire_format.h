// Floats as they travel: fp32 as they are, bf16 and fp16 rounded to the nearest, ties to even.
//
// A value too large for fp16 (65,504) becomes infinite and makes the sum so; the step is then
// skipped as one with a gradient that is not finite. bf16 has fp32's range.
#pragma once

#include <cstddef>
#include <span>

#include "dist/group.h"

namespace reigen {

size_t wire_bytes(Wire wire);  // of one value

// `out` holds values.size() * wire_bytes(wire) bytes, and need not be aligned to more than that.
void to_wire(Wire wire, std::span<const float> values, std::byte* out);
void from_wire(Wire wire, const std::byte* in, std::span<float> values);

// sum += what is in `in`.
void add_from_wire(Wire wire, const std::byte* in, std::span<float> sum);

}  // namespace reigen
