// Floating-point operations of the matrix products of a training step.
//
// Products are nearly all of the work, and the only part that follows from the model's sizes alone.
// Products inside attention grow with sentence length and are not counted (1% of a base model at 28
// tokens), so the reported FLOP/s are slightly too low.
#pragma once

#include "config/model_options.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

struct TokenFlops {
  double source = 0;
  double target = 0;
};

// Forward and backward of one token of either side.
TokenFlops token_flops(const ModelOptions& model, int64_t pieces);

// FLOP/s of the device in a product large enough to fill it: the best of a few after a warm-up.
// Takes some hundredths of a second.
double measure_flops(const Device& device, DType type);

}  // namespace reigen
