// A model of width 16 with random weights, moments and a vocabulary, for tests of checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/transformer.h"
#include "text/vocabulary.h"

namespace reigen {

// A plain list of `pieces` pieces: </s> <unk> a0 a1 ...
Vocabulary numbered_pieces(size_t pieces);

struct SmallModel {
  explicit SmallModel(const ModelOptions& options, size_t pieces = 29, uint64_t seed = 1);

  CheckpointFacts facts(uint64_t step) const;
  std::vector<NamedBuffer> moments() const;
  // Writes a checkpoint with moments.
  CheckpointFacts write(const std::string& directory, uint64_t step = 7) const;

  Vocabulary vocabulary;
  Transformer model;
  std::vector<float> parameters;
  std::vector<float> first;
  std::vector<float> second;
};

}  // namespace reigen
