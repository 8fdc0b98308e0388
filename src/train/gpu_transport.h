// How gradients get from GPU to GPU: through NCCL where every worker has a GPU of its own, else
// through the host's memory and Gloo.
#pragma once

#include <memory>
#include <string>

#include "config/train_options.h"
#include "device/device.h"
#include "dist/group.h"
#include "train/crew.h"

namespace reigen {

struct GpuTransport {
  std::unique_ptr<Group> direct;  // null: through the host
  std::string text;               // "gradients by NCCL 2.28.9", or why not; empty on the CPU
};

// All workers at once; they decide the same. `compress` is how gradients travel in the end. Throws
// ConfigError when NCCL was asked for and cannot be.
GpuTransport choose_transport(Crew& crew, const Device& device, const TrainOptions& options,
                              const std::string& compress);

}  // namespace reigen
