// Attention while decoding: one new query per row, over rows of a cache picked by an index table.
//
// A cache only ever grows: keys and values of a decoding step are appended and never move. A
// hypothesis has a list of the rows it may see, so reordering a beam copies small tables of
// numbers. Self-attention lists a hypothesis's ancestors, cross-attention its sentence's tokens.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// Row r sees cache rows picks[begin[r]] ... picks[begin[r] + count[r] - 1]; count is at least 1.
// Lists may overlap.
struct KeyLists {
  std::span<const uint32_t> picks;
  std::span<const uint32_t> begin;
  std::span<const uint32_t> count;
};

struct CachedAttention {
  Tensor q;  // [rows, heads * head width]; views with any stride, like the next two
  Tensor k;  // [cache rows, heads * head width]
  Tensor v;
  KeyLists keys;
  int heads = 1;
  Tensor out;  // [rows, heads * head width]
};

void cached_attention(const Device& device, const CachedAttention& op);

}  // namespace reigen
