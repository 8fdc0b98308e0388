// The reference for decoding: probabilities from the model's full forward pass, one evaluation per
// number. Slow and simple.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer.h"

namespace reigen {

// A model of width 16 with a vocabulary of `pieces`: pre, post or swish, which between them cover
// both norms, all activations, both kinds of positions, tied and untied, with and without biases.
ModelOptions tiny_variant(const std::string& name);

class TeacherForced {
 public:
  TeacherForced(const ModelOptions& options, size_t pieces, uint64_t seed);

  // log p(token | prefix, source) for every token of the vocabulary.
  std::vector<double> log_probabilities(const std::vector<uint32_t>& source, uint32_t bos,
                                        const std::vector<uint32_t>& prefix);

  Transformer model;
  std::vector<float> parameters;

 private:
  // Sum of -log p of `target`, each token after those before it.
  double loss(const std::vector<uint32_t>& source, uint32_t bos,
              const std::vector<uint32_t>& target);

  Arena arena_;
};

}  // namespace reigen
