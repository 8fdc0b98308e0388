// An exponential moving average of the parameters, over flat buffers in device memory.
#pragma once

#include <span>

#include "device/device.h"

namespace reigen {

// average <- average + weight * (parameters - average), each element in fp32.
void ema_step(const Device& device, double weight, std::span<const float> parameters,
              std::span<float> average);

}  // namespace reigen
