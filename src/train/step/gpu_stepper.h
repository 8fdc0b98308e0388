// Optimizer steps on a GPU: parameters, moments and gradients stay in its memory, a single worker's
// host queues one step ahead, and a checkpoint's copy is made on the GPU and fetched while training
// continues.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "ops/gpu_backend.h"
#include "optim/frozen.h"
#include "train/step/gpu_exchange.h"
#include "train/step/stepper.h"

namespace reigen {

class GpuStepper : public Stepper, public StateSource {
 public:
  GpuStepper(const Device& device, DType type, Transformer& model, const TrainOptions& options,
             TrainState& state, Job& job, Group* direct);
  ~GpuStepper() override;

  void start(const ReadyBatch& ready) override;
  StepResult finish() override;
  StepPosition position() const override {
    return {state_.counters.step + waiting_.size(), begun_.has_value(), reduced_};
  }
  void roll_forward() override;
  void abandon() override;
  void rejoin(Group* direct) override { exchange_->rejoin(direct); }
  void fetch_state() override {
    exchange_->fetch();
    fetch_average();
  }
  std::vector<std::span<float>> shared_compressor_state() override {
    return exchange_->shared_state();
  }
  size_t under_way() const override { return waiting_.size(); }
  size_t most_under_way() const override { return exchange_ ? 1 : 2; }
  const Weights& weights() const override { return averaged_ ? *averaged_ : weights_.view(); }
  void release_memory() override;
  SwappedWeights shared_weights() override;
  SwappedWeights averaged_weights() override;
  std::unique_ptr<Snapshot> snapshot() override;
  void trace(Timeline* timeline) override { timeline_ = timeline; }

  // A single worker's checkpoint.
  void begin() override;
  void complete(TrainState& into) override;

 private:
  class GpuSnapshot;

  GpuOptimizer optimizer() const;
  double loss_scale() const;
  void exchange();
  void clear_frozen(size_t elements);
  void commit();
  void enqueue(const ReadyBatch& ready, uint64_t step);
  uint64_t memory_state() const;
  size_t state_buffers() const { return average_.size() > 0 ? 4 : 3; }  // of a checkpoint
  void update_average();
  void fetch_average();
  void put_average();

  const Device& device_;
  Gpu& gpu_;
  Transformer& model_;
  const TrainOptions& options_;
  TrainState& state_;
  Job& job_;
  std::unique_ptr<GpuExchange> exchange_;  // null for a single worker
  DeviceWeights weights_;
  size_t elements_;
  Frozen frozen_;
  size_t cleared_ = 0;  // elements of the gradient whose frozen ones are cleared in this step
  DeviceBuffer gradient_;
  DeviceBuffer first_moment_;
  DeviceBuffer second_moment_;
  DeviceBuffer average_;             // of the parameters; empty without ema.decay
  double average_weight_ = 0;        // of the parameters of the last step; 0: averaged already
  std::optional<Weights> averaged_;  // while the average is shown
  DeviceBuffer copies_[4];           // for a checkpoint
  Arena arena_{DeviceKind::kGpu};
  uint64_t arenas_ = 1;  // number of arenas made
  std::unique_ptr<GpuStepQueue> queue_;
  Timeline* timeline_ = nullptr;
  std::deque<StepResult> waiting_;   // steps under way that are committed
  std::optional<StepResult> begun_;  // the step that is not
  bool reduced_ = false;             // the gradient of begun_ is that of all ranks
};

}  // namespace reigen
