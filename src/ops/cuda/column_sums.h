// Sums over tokens of one number per column (gradients of gains, shifts and biases).
//
// Blocks leave one row of partial sums each in scratch memory; this kernel adds the rows in a fixed
// tree and then to the targets. No float atomics, so the same grid gives the same bits.
#pragma once

#include "ops/cuda/context.h"

namespace reigen::cuda {

// Up to three targets lie side by side in a partial row: [parts][targets][width]. A null target is
// passed over.
struct ColumnTargets {
  float* target[3] = {};
  int targets = 0;
  int width = 0;
};

void add_column_sums(const Context& context, const float* partials, int parts,
                     const ColumnTargets& targets);

}  // namespace reigen::cuda
