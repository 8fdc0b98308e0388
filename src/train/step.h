// One optimizer step: micro-batches forward and backward, the norm, clipping, the update.
#pragma once

#include <cstdint>
#include <vector>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "device/device.h"
#include "model/transformer.h"
#include "observe/records.h"
#include "train/state.h"

namespace reigen {

class StepRunner {
 public:
  // `options` are resolved. Model and device must outlive it.
  StepRunner(const Device& device, Transformer& model, const TrainOptions& options);

  // Trains on the batch and moves the state past it. When the loss or the gradient is not finite
  // the parameters stay as they were and the step counts as skipped. The record lacks what only
  // the caller knows: the wait for input, the whole step's time, the epoch.
  StepRecord run(TrainState& state, const ReadyBatch& ready);

  // Gives back what activations took, for others to use until the next step.
  void release_memory() { arena_ = Arena(); }

 private:
  LossSums accumulate(const TrainState& state, const ReadyBatch& ready, StepRecord& record);
  void update(TrainState& state, const StepRecord& record);

  const Device& device_;
  Transformer& model_;
  const TrainOptions& options_;
  std::vector<float> gradients_;
  Arena arena_;
};

}  // namespace reigen
