// Training steps on a GPU without the host waiting: norm, clipping, whether the step is skipped,
// loss scale and update are computed on the GPU, and the results of a step are read one step later.
//
// begin(), the model's forward and backward with sums(), mark() between them, finish(); then the
// next step may begin while this one runs. take() waits for the oldest step and returns its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "config/loss_scaling.h"
#include "ops/adam.h"
#include "ops/muon.h"
#include "ops/projection_loss.h"
#include "tensor/tensor.h"

namespace reigen {

struct BatchIndex;

inline constexpr double kFirstLossScale = 32768;

// The state of dynamic loss scaling between steps.
struct LossScaleState {
  double scale = 0;         // of the next step; 0 before the first
  double ceiling = 0;       // halved when a gradient overflows, doubled after many that did not
  uint64_t good_steps = 0;  // since the ceiling changed
  double mean = 0;          // of log2 of the largest gradient
  double variance = 0;      // of the same
  uint64_t seen = 0;        // gradients in mean and variance
};

struct GpuOptimizer {
  std::span<float> gradient;  // in GPU memory, as the next three
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;
  void* compute_copy = nullptr;  // read by products; null where they read the parameters
  DType compute_type = DType::kF32;
  AdamStep adam;          // its constants; rate and step come with each step
  MuonPlan plan;          // matrices that Muon updates, and Adam's elements; empty: Adam's are all
  MuonStep muon;          // its constants
  double muon_ratio = 1;  // rate of the matrices / rate of a step
  // Other workers make the same update: products of Muon use algorithms that do not depend on
  // timing, so that the same numbers come out on each of them.
  bool several_workers = false;
  double clip = 0;       // largest norm; 0 does not clip
  uint64_t updates = 0;  // made so far
  LossScaling scaling = LossScaling::kOff;
  LossScaleState scale;
};

struct GpuStepSettings {
  uint64_t step = 1;  // decides dropout
  double rate = 0;
  double gradient_scale = 1;  // 1 / target tokens of the global batch
};

struct GpuStepResult {
  LossSums sums;
  double norm = 0;  // of the gradient, without loss scale, before clipping
  bool skipped = false;
  uint64_t updates = 0;
  LossScaleState scale;  // after the step
  // Seconds by the GPU's own clock.
  double idle = 0;  // since the previous step ended
  double forward = 0;
  double loss = 0;
  double backward = 0;
  double exchange = 0;  // with other workers, after backward
  double optimizer = 0;
};

class GpuStepQueue {
 public:
  enum class Mark : uint8_t { kForward, kLoss, kBackward, kExchange };  // the part that just ended

  virtual ~GpuStepQueue() = default;
  virtual void begin(const GpuStepSettings& settings) = 0;
  virtual LossSums* sums() = 0;  // of the current step, in GPU memory
  virtual void mark(Mark mark) = 0;
  // Calls `work` with this batch, or with the copy that a recording reads. The operations of
  // `work` for small batches are recorded once for each layout as a graph and replayed afterwards,
  // which saves the host hundreds of launches a step. `memory` identifies the state of the memory
  // that the operations use: a new value discards all recordings, 0 never records.
  virtual void run(const BatchIndex& batch, uint64_t memory,
                   const std::function<void(const BatchIndex&)>& work) = 0;
  // Computes the norm and updates the parameters by Muon and Adam with the clipped gradient. The
  // update is skipped if the norm or sums() are not finite. Clears the gradient in both cases.
  virtual void finish() = 0;
  virtual GpuStepResult take() = 0;
  // Forgets the step begun, in place of finish(). The gradient is left as it is.
  virtual void abandon() = 0;
};

}  // namespace reigen
