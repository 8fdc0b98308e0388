// Multi-head attention over packed sentences: self, causal, or from one side to the other.
//
// Dropout of the weights is included. No [heads, n, n] matrix outlives a sentence: forward stores
// one number per token and head (the log of the softmax's sum), from which backward recomputes the
// weights.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "ops/batch_index.h"
#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace reigen {

struct Attention {
  Tensor q;  // [query tokens, heads * head width]; views with any stride
  Tensor k;  // [key tokens, heads * head width]
  Tensor v;
  std::span<const uint32_t> query_offsets;  // one more than sentences
  std::span<const uint32_t> key_offsets;
  int heads = 1;
  bool causal = false;
  Dropout dropout;               // by query token; keys are numbered within their sentence
  Tensor out;                    // [query tokens, heads * head width]
  Tensor log_sums;               // [query tokens, heads]
  const OpPlan* plan = nullptr;  // of the batch's index, where the backend makes plans
};

void attention_forward(const Device& device, const Attention& op);

struct AttentionGrad {
  Tensor dout;
  Tensor dq;  // out, overwritten; views with any stride
  Tensor dk;
  Tensor dv;
};

void attention_backward(const Device& device, const Attention& op, const AttentionGrad& grad);

}  // namespace reigen
