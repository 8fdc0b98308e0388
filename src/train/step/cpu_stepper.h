// Optimizer steps on the CPU: micro-batches forward and backward, the exchange of gradients, the
// norm, clipping, the update.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "optim/frozen.h"
#include "optim/muon_plan.h"
#include "train/step/exchange.h"
#include "train/step/moment_shards.h"
#include "train/step/stepper.h"

namespace reigen {

class CpuStepper : public Stepper {
 public:
  // `options` are resolved. All arguments must outlive it.
  CpuStepper(const Device& device, Transformer& model, const TrainOptions& options,
             TrainState& state, Job& job);

  // Trains on the batch and moves the state past it. Where the loss or the gradient of any rank is
  // not finite, the parameters stay as they were and the step counts as skipped.
  void start(const ReadyBatch& ready) override;
  StepResult finish() override;
  StepPosition position() const override {
    return {state_.counters.step, under_way_ > 0, reduced_};
  }
  void roll_forward() override;
  void abandon() override;
  void rejoin(Group*) override { exchange_->rejoin(); }
  void fetch_state() override {}
  std::vector<std::span<float>> shared_compressor_state() override {
    return exchange_->shared_state();
  }
  size_t under_way() const override { return under_way_; }
  size_t most_under_way() const override { return 1; }

  const Weights& weights() const override { return weights_; }
  void release_memory() override { arena_ = Arena(); }
  SwappedWeights shared_weights() override;
  SwappedWeights averaged_weights() override;
  std::unique_ptr<Snapshot> snapshot() override;
  void trace(Timeline* timeline) override { timeline_ = timeline; }

 private:
  class CpuSnapshot;

  void accumulate(const ReadyBatch& ready);
  void clear_frozen(size_t elements);
  // All ranks have the reduced gradient, or none will: updates the parameters, or skips the step.
  void commit(bool all_finite);
  void update();
  void update_average();
  // Seconds since the last lap, recorded in the timeline as `name`.
  double lap(const char* name);

  const Device& device_;
  Transformer& model_;
  const TrainOptions& options_;
  TrainState& state_;
  Job& job_;
  std::unique_ptr<Exchange> exchange_;    // null for a single worker
  std::unique_ptr<MomentShards> shards_;  // null without --shard-optimizer
  Frozen frozen_;
  MuonPlan plan_;  // of this rank's chunk with --shard-optimizer, which muon cannot be used with
  Weights weights_;
  std::vector<float> gradient_;
  size_t cleared_ = 0;  // elements of the gradient whose frozen ones are cleared in this step
  Arena arena_;
  Timeline* timeline_ = nullptr;
  // The step under way.
  StepResult result_;
  LossSums sums_;
  Stopwatch watch_;
  size_t under_way_ = 0;
  bool reduced_ = false;  // gradient_ and sums_ are those of all ranks, and not yet committed
  double waited_ = 0;     // for other ranks, in seconds
  double updating_ = 0;   // in the norm and the update
  // Seconds that this rank waited in the previous step after its agreement: reported in the next.
  double waited_after_ = 0;
};

}  // namespace reigen
