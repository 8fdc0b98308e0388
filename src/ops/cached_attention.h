// Attention while decoding: one new query per row, over rows of a cache picked by an index table.
//
// Keys and values never move once they are in a cache. A hypothesis has a list of the rows it may
// see, so reordering a beam copies small tables of numbers. Self-attention lists a hypothesis's
// ancestors, cross-attention its sentence's tokens.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// Row r sees cache rows picks[begin[r]] ... picks[begin[r] + count[r] - 1]. Lists may overlap. On a
// GPU count may be 0, for a row whose result is not read; its output is zero.
struct KeyLists {
  std::span<const uint32_t> picks;
  std::span<const uint32_t> begin;
  std::span<const uint32_t> count;
  // Groups of so many adjacent rows mostly have equal or empty lists, such as the tokens of one
  // source: then a GPU reads their keys once. Any lists are correct.
  int shared = 1;
};

struct CachedAttention {
  Tensor q;  // [rows, heads * head width]; views with any stride, like the next two
  Tensor k;  // [cache rows, heads * head width]
  Tensor v;
  KeyLists keys;
  int heads = 1;
  Tensor out;  // [rows, heads * head width]

  // Self-attention: row r's own key and value, written to the last cache row of its list before it
  // is read. No other row of this call may have that cache row in its list. Empty: nothing to
  // write.
  Tensor new_k;  // [rows, heads * head width]
  Tensor new_v;
};

void cached_attention(const Device& device, const CachedAttention& op);

}  // namespace reigen
