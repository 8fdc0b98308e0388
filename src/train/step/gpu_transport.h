// How gradients get from GPU to GPU: through NCCL where every worker has a GPU of its own, else
// through the host's memory and Gloo.
#pragma once

#include <memory>
#include <string>

#include "config/compress_options.h"
#include "config/train_options.h"
#include "device/device.h"
#include "dist/group/group.h"
#include "dist/members/job.h"

namespace reigen {

struct GpuTransport {
  std::unique_ptr<Group> direct;  // null: through the host
  std::string text;               // "gradients by NCCL 2.28.9", or why not; empty on the CPU
};

// Throws ConfigError when NCCL was asked for where it can never be.
void check_transport(const Device& device, const TrainOptions& options);

// All workers at once; they decide the same. Throws ConfigError when NCCL was asked for and cannot
// be. Where `compress` is auto, keep_to() follows when it is chosen.
GpuTransport choose_transport(Job& job, const Device& device, const TrainOptions& options,
                              const CompressSetting& compress);
void keep_to(GpuTransport& transport, const CompressSetting& compress);

}  // namespace reigen
