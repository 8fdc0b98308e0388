// The part of a training step on a GPU that must not make the host wait: what decides whether a
// step counts (norm, clipping, loss scale), Adam, and the results, which come back a step later.
//
// begin(), the model's forward and backward with sums(), marks between them, finish(); then the
// next step may begin while this one runs. take() gives the oldest step's result and waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ops/adam.h"
#include "ops/projection_loss.h"
#include "tensor/tensor.h"

namespace reigen {

enum class LossScaling : uint8_t { kOff, kBackoff, kLogMax };
inline constexpr double kFirstLossScale = 32768;

// What dynamic loss scaling remembers from step to step.
struct LossScaleState {
  double scale = 0;         // of the next step; 0 before the first
  double ceiling = 0;       // halved when a gradient overflows, doubled after many that did not
  uint64_t good_steps = 0;  // since it was moved
  double mean = 0;          // of log2 of the largest gradient, and its spread
  double variance = 0;
  uint64_t seen = 0;  // gradients behind them
};

struct GpuOptimizer {
  std::span<float> gradient;  // the GPU's, as the next three
  std::span<float> parameters;
  std::span<float> first_moment;
  std::span<float> second_moment;
  void* compute_copy = nullptr;  // what products read; null where they read the parameters
  DType compute_type = DType::kF32;
  AdamStep adam;         // its constants: rate and step come with each step
  double clip = 0;       // largest norm; 0 does not clip
  uint64_t updates = 0;  // made so far
  LossScaling scaling = LossScaling::kOff;
  LossScaleState scale;
};

struct GpuStepSettings {
  uint64_t step = 1;
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
  double idle = 0;  // since the step before ended
  double forward = 0;
  double loss = 0;
  double backward = 0;
  double exchange = 0;  // with other workers, after backward
  double optimizer = 0;
};

struct BatchIndex;

class GpuStepQueue {
 public:
  enum class Mark : uint8_t { kForward, kLoss, kBackward, kExchange };  // what has just ended

  virtual ~GpuStepQueue() = default;
  virtual void begin(const GpuStepSettings& settings) = 0;
  virtual LossSums* sums() = 0;  // of the step under way, on the GPU
  virtual void mark(Mark mark) = 0;
  // Calls `work` with a batch: this one, or its copy where it is recorded. What `work` puts in line
  // for small batches is recorded once for each layout and replayed from then on, which spares the
  // host hundreds of launches a step. `memory` tells apart states of the memory that operations
  // use: when it changes, recordings are worth nothing any more; 0 never records.
  virtual void run(const BatchIndex& batch, uint64_t memory,
                   const std::function<void(const BatchIndex&)>& work) = 0;
  virtual void finish() = 0;  // norm, clipping, Adam; the gradient is 0 again afterwards
  virtual GpuStepResult take() = 0;
};

}  // namespace reigen
