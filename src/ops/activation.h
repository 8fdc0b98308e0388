// The middle of a feed-forward sublayer: out = dropout(activation(z + bias)).
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/activation_kind.h"
#include "device/device.h"
#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace reigen {

struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
  Tensor z;     // [tokens, width], the first product
  Tensor bias;  // [1, width]
  Dropout dropout;
  Tensor out;            // may be z itself where there is a mask
  void* mask = nullptr;  // activation_mask_bytes() in device memory: a bit per positive element
};

// The size of the mask that a backend wants for backward; 0 where backward reads z instead.
size_t activation_mask_bytes(const Device& device, ActivationKind kind, int64_t rows, int64_t cols);

void activation_forward(const Device& device, const Activation& op);

// dz may be dout itself. dbias is added to, after complete_gradients() (residual_norm.h) at the
// latest.
void activation_backward(const Device& device, const Activation& op, Tensor dout, Tensor dz,
                         Tensor dbias);

// y += bias, and its gradient: dbias += column sums of dy, with the same delay.
void add_bias(const Device& device, Tensor y, Tensor bias);
void bias_backward(const Device& device, Tensor dy, Tensor dbias);

}  // namespace reigen
