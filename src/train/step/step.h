// One optimizer step: micro-batches forward and backward, the norm, clipping, the update.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "config/train_options.h"
#include "data/prefetch.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "observe/sample/timeline.h"
#include "optim/state.h"
#include "train/step/exchange.h"
#include "train/step/moment_shards.h"

namespace reigen {

class StepRunner {
 public:
  // `options` are resolved. All that is given must outlive it; the exchange is with the rest of the
  // job, where there are others, and the shards are of moments that are shared out among it.
  StepRunner(const Device& device, Transformer& model, const TrainOptions& options,
             Job* job = nullptr, Exchange* exchange = nullptr, MomentShards* shards = nullptr);

  // Trains on the batch and moves the state past it. When the loss or the gradient is not finite
  // the parameters stay as they were and the step counts as skipped. The record lacks what only
  // the caller knows: the wait for input, the whole step's time, the epoch.
  StepRecord run(TrainState& state, const ReadyBatch& ready);

  // Gives back what activations took, for others to use until the next step.
  void release_memory() { arena_ = Arena(); }

  void trace(Timeline* timeline) { timeline_ = timeline; }

 private:
  LossSums accumulate(const TrainState& state, const ReadyBatch& ready, StepRecord& record,
                      Stopwatch& watch);
  void agree(LossSums& sums, StepRecord& record, double waited);
  std::vector<float>& gradients() { return gradients_[turn_]; }
  void update(TrainState& state, const StepRecord& record);
  // Seconds since the last lap, which the timeline knows as `name`.
  double lap(Stopwatch& watch, const char* name);

  const Device& device_;
  Transformer& model_;
  const TrainOptions& options_;
  Job* job_;
  Exchange* exchange_;
  MomentShards* shards_;
  // Among several workers a step is committed when its summed gradient is complete, and that is
  // kept until the next one is: whoever did not get all of it could have it from another.
  std::vector<float> gradients_[2];
  size_t turn_ = 0;
  Arena arena_;
  double least_wait_ = 0;    // of all ranks, as told in the last step
  double waited_after_ = 0;  // this one, in the last step, after it had told: told in the next
  Timeline* timeline_ = nullptr;
};

}  // namespace reigen
