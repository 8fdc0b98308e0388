// The tensors of a Hugging Face MarianMT or Pegasus model as parameters of ours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convert/foreign_config.h"
#include "model/transformer.h"
#include "tensor/safetensors.h"

namespace reigen {

struct ForeignModel {
  std::unique_ptr<Transformer> model;
  std::vector<float> parameters;
};

// `pieces` are the sizes of the vocabularies. Attention biases that are all zero are left out, and
// so is an output bias of zeros unless the model never emits the start piece. Where Hugging Face
// does not scale embeddings, the tables are divided by sqrt(width), and are then not tied to the
// projection. Throws DataError, which begins with `name`, when a tensor is missing, has a different
// shape or type, is not finite, or is not part of such a model.
ForeignModel read_foreign_weights(const SafeTensorsHeader& file, const ForeignConfig& config,
                                  const PieceCounts& pieces, const std::string& name);

}  // namespace reigen
