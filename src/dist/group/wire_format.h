// Floats encoded for a message: fp32 unchanged, bf16 and fp16 rounded to the nearest, ties to even,
// and integers in blocks (block_format.h).
//
// A value too large for fp16 (65,504) becomes infinite and makes the sum infinite; the step is then
// skipped because of a non-finite gradient. bf16 has fp32's range.
#pragma once

#include <cstddef>
#include <span>

#include "dist/group/group.h"

namespace reigen {

// Encoded size of so many values. A sub-range must start on a block boundary.
size_t wire_bytes(Wire wire, size_t values);

// `out` holds wire_bytes(wire, values.size()), aligned to one encoded value.
void to_wire(Wire wire, std::span<const float> values, std::byte* out);
void from_wire(Wire wire, const std::byte* in, std::span<float> values);

// sum += decoded values of `in`.
void add_from_wire(Wire wire, const std::byte* in, std::span<float> sum);

}  // namespace reigen
