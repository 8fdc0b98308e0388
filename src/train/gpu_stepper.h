// Training steps on a GPU: parameters, moments and gradients live there, the host stays a step
// ahead, and a checkpoint's copy is made on the GPU and fetched while training goes on.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "ops/gpu_ops.h"
#include "train/stepper.h"

namespace reigen {

class GpuStepper : public Stepper {
 public:
  GpuStepper(const Device& device, DType type, Transformer& model, const TrainOptions& options,
             TrainState& state);
  ~GpuStepper() override;

  void start(const ReadyBatch& ready) override;
  StepRecord finish() override;
  size_t under_way() const override { return waiting_.size(); }
  size_t most_under_way() const override { return 2; }
  const Weights& weights() const override { return weights_.view(); }
  void release_memory() override;

  void trace(Timeline* timeline) override { timeline_ = timeline; }

  void begin() override;
  void complete(TrainState& into) override;

 private:
  GpuOptimizer optimizer() const;
  void enqueue(const ReadyBatch& ready, const StepRecord& record);
  uint64_t memory_state() const;

  const Device& device_;
  GpuOps& gpu_;
  Transformer& model_;
  const TrainOptions& options_;
  TrainState& state_;
  DeviceWeights weights_;
  size_t elements_;
  DeviceBuffer gradient_;
  DeviceBuffer first_moment_;
  DeviceBuffer second_moment_;
  DeviceBuffer copies_[3];  // for a checkpoint
  Arena arena_{DeviceKind::kGpu};
  uint64_t arenas_ = 1;  // made so far
  std::unique_ptr<GpuStepQueue> queue_;
  Timeline* timeline_ = nullptr;

  struct Waiting {
    StepRecord record;
    Cursor end;
  };
  std::deque<Waiting> waiting_;
};

}  // namespace reigen
