// The optimizer over flat buffers in device memory: global norm, then Adam or AdamW in one pass.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"

namespace reigen {

// Square root of the sum of squares, summed in double by fixed parts. Not finite when any element
// is not. Waits for the result.
double global_norm(const Device& device, std::span<const float> gradient);

struct AdamStep {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.997;
  double epsilon = 1e-9;
  double weight_decay = 0;    // decoupled, as in AdamW
  uint64_t step = 1;          // from 1, for bias correction
  double gradient_scale = 1;  // of clipping
};

void adam_step(const Device& device, const AdamStep& options, std::span<const float> gradient,
               std::span<float> parameters, std::span<float> first_moment,
               std::span<float> second_moment);

}  // namespace reigen
