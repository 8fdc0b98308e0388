// How much memory a micro-batch takes, so that one can be chosen to fit a budget before the first
// step.
//
// Sentences are packed and nothing of size n^2 is kept, so activations grow with tokens alone. A
// step takes the most at one of a few moments, and each of them is linear in the tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/model_options.h"
#include "tensor/tensor.h"

namespace reigen {

struct ActivationBytes {
  // What is held at one point of a step.
  struct Moment {
    double source_token = 0;
    double target_token = 0;
    double fixed = 0;
  };
  std::vector<Moment> moments;

  double of(uint64_t source_tokens, uint64_t target_tokens) const;
  // The most tokens, source and target together and in any proportion, that fit in `bytes`; 0 when
  // none do.
  uint64_t most_tokens(double bytes) const;
  // What that many take in the worst proportion.
  double of_any(uint64_t tokens) const;
};

// How a device keeps activations.
struct ActivationShape {
  double element = 4;          // bytes of a number
  double residual = 4;         // and in the sum that sublayers add to
  bool relu_in_place = false;  // with a bit for each element instead of a second copy
  double loss_tokens = 512;    // whose logits exist at once
  double loss_element = 4;
};
ActivationShape gpu_activations(const ModelOptions& options, DType type);

// An upper bound of what forward and backward take from their arena; a test holds it to within a
// tenth of what they do take.
ActivationBytes activation_bytes(const ModelOptions& options, size_t vocabulary,
                                 const ActivationShape& shape = {});

// What beam search takes at most for each hypothesis and source token, when a translation may have
// `output_ratio` times the source's tokens and ten more: caches, projected memory, logits.
double decoding_bytes(const ModelOptions& options, size_t vocabulary, double output_ratio,
                      double element = 4);

}  // namespace reigen
