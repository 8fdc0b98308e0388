// Training steps on a GPU: parameters, moments and gradients live there, the host stays a step
// ahead, and a checkpoint's copy is made on the GPU and fetched while training goes on.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "ops/gpu_ops.h"
#include "train/step/gpu_exchange.h"
#include "train/step/stepper.h"

namespace reigen {

class GpuStepper : public Stepper, public StateSource {
 public:
  GpuStepper(const Device& device, DType type, Transformer& model, const TrainOptions& options,
             TrainState& state, Job& job, Group* direct);
  ~GpuStepper() override;

  void start(const ReadyBatch& ready) override;
  StepRecord finish() override;
  size_t under_way() const override { return waiting_.size(); }
  size_t most_under_way() const override { return exchange_ ? 1 : 2; }
  const Weights& weights() const override { return weights_.view(); }
  void release_memory() override;

  void collect() override;
  StateSource* source() override { return exchange_ ? nullptr : this; }
  void put_state() override;
  void swap_shared() override;
  bool own_moments() const override { return exchange_ && exchange_->apart(); }
  void trace(Timeline* timeline) override { timeline_ = timeline; }

  void begin() override;
  void complete(TrainState& into) override;

 private:
  GpuOptimizer optimizer() const;
  double loss_scale() const;
  void exchange();
  void enqueue(const ReadyBatch& ready, const StepRecord& record);
  uint64_t memory_state() const;

  const Device& device_;
  GpuOps& gpu_;
  Transformer& model_;
  const TrainOptions& options_;
  TrainState& state_;
  std::unique_ptr<GpuExchange> exchange_;  // where there are other workers
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
