// What changes from step to step, in device memory: settings that the host sends ahead, and the
// control that a step leaves for its own end and for the next one.
//
// Kernels read both there and not from their arguments, so nothing in a step waits for a decision
// of the host, and a captured CUDA graph can be replayed for any step. The control is part of a
// run's state: a checkpoint holds it, and a run that goes on puts it back.
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

// How the loss is scaled, so that gradients in fp16 neither overflow nor vanish. Scales are powers
// of two.
struct LossScaling {
  enum class Policy : uint8_t {
    kOff,      // 1, for bf16 and fp32
    kBackoff,  // halved when a gradient is not finite, doubled after `growth_interval` good steps
    kLogMax,   // as OpenSeq2Seq's: from mean and deviation of the log of the largest gradient, so
               // that `deviations` above the mean still fit; halved when that was not enough
  };
  Policy policy = Policy::kOff;
  double start = kFirstLossScale;
  double least = 0x1p-14;
  double most = 0x1p24;
  uint32_t growth_interval = 2000;
  double memory = 0.99;   // kLogMax: the share of the past in mean and variance
  double deviations = 3;  // kLogMax
};

struct StepControl {
  double norm = 0;     // of this step's gradient, unscaled
  double largest = 0;  // its largest element
  // What adam_step reads: factors of the gradient, of the corrected mean, of the root of the second
  // moment and of the parameters (weight decay).
  float factor = 1;
  float rate = 0;
  float root = 1;
  float keep = 1;
  uint32_t skip = 0;            // 1: this step's loss or gradient was not finite
  uint32_t skipped_in_row = 0;  // such steps up to this one
  uint64_t skipped = 0;         // in all
  uint64_t updates = 0;         // steps that were not skipped

  // Of the next step, and what it is made from.
  double loss_scale = 1;
  double ceiling = 1;  // halved and doubled; kLogMax stays below it
  uint64_t good = 0;   // finite gradients since the ceiling was last moved
  double log_mean = 0;
  double log_variance = 0;
  uint64_t log_count = 0;
};

// At the start of a run.
StepControl initial_control(const LossScaling& scaling);

// A kernel that writes where there is nothing, for tests of what happens then.
void break_on_purpose(cudaStream_t stream);

// Enqueue a write to device memory. The value travels with the launch: no buffer of the host's has
// to outlive the call.
void store(cudaStream_t stream, const StepSettings& value, StepSettings* to);
void store(cudaStream_t stream, const StepControl& value, StepControl* to);

}  // namespace reigen::cuda
