// How much a training step computes: the floating-point operations of its matrix products.
//
// Products are nearly all of the work, and the only part that can be counted from sizes alone. What
// attention computes between tokens grows with the length of sentences and is left out (1% of a
// base model at 28 tokens), so what a device is said to achieve is a little less than it does.
#pragma once

#include "config/model_options.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

struct TokenFlops {
  double source = 0;
  double target = 0;
};

// Of forward and backward, for one token of either side.
TokenFlops token_flops(const ModelOptions& model, int64_t pieces);

// What the device does in a second in a product large enough to fill it: the best of a few, after
// one that warms up. Takes some hundredths of a second.
double measure_flops(const Device& device, DType type);

}  // namespace reigen
