// Token embedding: out = dropout(scale * table[id] + position).
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "ops/batch_index.h"
#include "ops/dropout.h"
#include "ops/packed_weight.h"
#include "tensor/tensor.h"

namespace reigen {

struct EmbedInput {
  std::span<const uint32_t> ids;
  std::span<const uint32_t> places;  // of each token in its sentence
  float scale = 1;
  Dropout dropout;
  const OpPlan* plan = nullptr;  // of the batch's index, for backward
  Int8Matrix int8_table = {};    // on the CPU: instead of the table
};

// `positions` has a row for each place in a sentence.
void embed_forward(const Device& device, const EmbedInput& input, Tensor table, Tensor positions,
                   Tensor out);

// Adds to dtable, and to dpositions unless it is empty (learned positions). Rows are summed in the
// order of their tokens, for any number of threads.
void embed_backward(const Device& device, const EmbedInput& input, Tensor dout, Tensor dtable,
                    Tensor dpositions);

}  // namespace reigen
