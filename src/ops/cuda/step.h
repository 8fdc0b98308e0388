// Per-step values in device memory: settings that the host sends ahead, and the control that a step
// computes for its own update and for the next step.
//
// Kernels read both from there and not from their arguments, so nothing in a step waits for a
// decision of the host, and a captured CUDA graph can be replayed for any step. The control is part
// of the training state: it is saved in checkpoints and restored on resume.
#pragma once

#include <cstdint>

#include "device/cuda/runtime.h"
#include "ops/gpu_step.h"

namespace reigen::cuda {

struct StepSettings {
  uint64_t step = 0;     // decides dropout (tensor/philox.h)
  double rate = 0;       // the learning rate, before bias correction
  double per_token = 1;  // the loss's gradient is this times the loss scale: 1 / target tokens of
                         // the global batch
};

// Rules of loss scaling, so that gradients in fp16 neither overflow nor vanish. Scales are powers
// of two.
struct LossScaleRules {
  LossScaling policy = LossScaling::kOff;  // kOff: the scale is 1
  double start = kFirstLossScale;
  double least = 0x1p-14;
  double most = 0x1p24;
  uint32_t growth_interval = 2000;  // finite gradients until the scale is doubled
  double memory = 0.99;             // kLogMax: the weight of the past in mean and variance
  double deviations = 3;            // kLogMax: above the mean that must still fit
};

struct StepControl {
  double norm = 0;     // of this step's gradient, unscaled
  double largest = 0;  // its largest element
  // Read by adam_step and by Muon: unscales and clips the gradient.
  float gradient_factor = 1;
  // Read by adam_step.
  float rate = 0;              // learning rate with the bias correction of the first moment
  float root_factor = 1;       // bias correction of the root of the second moment
  float parameter_factor = 1;  // weight decay: below 1
  // Read by Muon.
  float muon_rate = 0;  // of the orthogonalised update
  float muon_parameter_factor = 1;
  uint32_t skip = 0;     // 1: this step's loss or gradient was not finite
  uint64_t updates = 0;  // steps that were not skipped

  // Loss scale of the next step, and the state it is computed from.
  double loss_scale = 1;
  double ceiling = 1;         // halved and doubled; kLogMax stays below it
  uint64_t finite_steps = 0;  // since the ceiling was last moved
  double log_mean = 0;
  double log_variance = 0;
  uint64_t log_count = 0;
};

struct StepMemory {
  StepSettings settings;
  StepControl control;
};

// At the start of a run.
StepControl initial_control(const LossScaleRules& rules);

// Enqueue a write to device memory. The value is an argument of the launch: no host buffer has to
// outlive the call.
void store(cudaStream_t stream, const StepSettings& value, StepSettings* to);
void store(cudaStream_t stream, const StepControl& value, StepControl* to);

}  // namespace reigen::cuda
