// The matrix products of a training step.
#pragma once

#include <cstdint>
#include <vector>

#include "config/model_options.h"

namespace reigen {

// A linear layer; each takes three products a step.
struct LinearProduct {
  int64_t rows;  // tokens
  int64_t in;
  int64_t out;
  int64_t times;
};

// Every linear layer of the model.
std::vector<LinearProduct> step_products(const ModelOptions& options, int64_t pieces,
                                         int64_t source, int64_t target);

// Rows that are multiplied at once: the projection comes in chunks.
int64_t rows_at_once(const LinearProduct& product);

}  // namespace reigen
