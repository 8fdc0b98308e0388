// Floating-point operations of the matrix products of a training step.
//
// Products are nearly all of the work, and the only part that follows from the model's sizes alone.
// Products inside attention grow with sentence length and are not counted (1% of a base model at 28
// tokens), so the reported FLOP/s are slightly too low.
#pragma once

#include "config/model_options.h"
#include "device/buffer.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

struct TokenFlops {
  double source = 0;
  double target = 0;
};

// Forward and backward of one token of either side.
TokenFlops token_flops(const ModelOptions& model, int64_t pieces);

// Products large enough to fill the device.
class ProductProbe {
 public:
  ProductProbe(const Device& device, DType type);  // runs one, which is slower than the rest
  // FLOP/s of products one after the other, for about this time.
  double run(double seconds);

 private:
  void multiply();

  const Device& device_;
  DeviceBuffer memory_[3];
  Tensor operands_[3];
  double operations_ = 0;  // of a product
};

}  // namespace reigen
