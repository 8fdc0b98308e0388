// Estimate of the memory that a micro-batch needs, from which its size is chosen before the first
// step.
//
// Sentences are packed and no n^2 matrix is stored, so activations are linear in the tokens. The
// peak is at one of a few moments of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/model_options.h"
#include "tensor/tensor.h"

namespace reigen {

struct ActivationBytes {
  // Bytes in use at one point of a step: per token of either side, and fixed.
  struct Moment {
    double source_token = 0;
    double target_token = 0;
    double fixed = 0;
  };
  std::vector<Moment> moments;

  double of(uint64_t source_tokens, uint64_t target_tokens) const;
  // Largest number of tokens, source and target together in any proportion, that fits in `bytes`; 0
  // when none does.
  uint64_t most_tokens(double bytes) const;
  // Bytes of that many tokens in the worst proportion of source and target.
  double of_any(uint64_t tokens) const;
};

// Sizes of a device's activations.
struct ActivationShape {
  double element = 4;          // bytes of an activation
  double residual = 4;         // bytes of an element of the residual stream
  bool relu_in_place = false;  // a bit per element instead of a second copy
  double loss_tokens = 512;    // tokens whose logits exist at once
  double loss_element = 4;
};
ActivationShape gpu_activations(const ModelOptions& options, DType type);

// Upper bound of the arena that forward and backward need; a test checks that it is within a tenth
// of the real use.
ActivationBytes activation_bytes(const ModelOptions& options, size_t vocabulary,
                                 const ActivationShape& shape = {});

// Upper bound of the rounded copies of a product's factors in a pass over `tokens` tokens on a CPU,
// with products in bf16.
uint64_t bf16_copies_bytes(const ModelOptions& options, size_t vocabulary, uint64_t tokens,
                           int threads);

// Upper bound of the memory of beam search per hypothesis and source token, where a translation has
// at most `output_ratio` times the source's tokens plus ten: caches, projected memory, logits.
double decoding_bytes(const ModelOptions& options, size_t vocabulary, double output_ratio,
                      double element = 4);

}  // namespace reigen
