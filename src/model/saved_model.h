// A trained model, opened for use: from a checkpoint, or from a run, whose best one is taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/open_device.h"
#include "model/transformer.h"

namespace reigen {

struct SavedModel {
  std::string path;  // of the checkpoint
  CheckpointFacts facts;
  Vocabulary vocabulary;
  std::unique_ptr<Transformer> model;
  std::vector<float> parameters;
};

// A saved model on the device it is used on. `saved` must outlive it.
struct PlacedModel {
  PlacedModel(SavedModel& saved, const DeviceOptions& options, int threads);
  OpenedDevice opened;
  DeviceWeights weights;
};

// The checkpoint itself, or the one of a run to use: best-bleu, else best-loss, else last. Throws
// CheckpointError when there is none.
std::string resolve_checkpoint(const std::string& run_or_checkpoint);

SavedModel load_model(const std::string& run_or_checkpoint);

}  // namespace reigen
