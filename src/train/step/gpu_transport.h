// The transport of gradients between GPUs: NCCL where every worker has a GPU of its own, otherwise
// host memory and TCP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/compress_options.h"
#include "config/train_options.h"
#include "device/device.h"
#include "dist/group/group.h"
#include "dist/members/job.h"

namespace reigen {

struct GpuTransport {
  std::unique_ptr<Group> direct;  // NCCL; null to go through host memory
  std::string text;  // "gradients over NCCL 2.28.9", or through the host and why; empty on the CPU
};

// What decides about NCCL: options, and facts of every worker.
struct NcclQuestion {
  struct Worker {
    std::string gpu;       // its identity; empty on the CPU
    std::string unusable;  // why this worker cannot use NCCL; empty if it can
  };
  Transport wanted = Transport::kAuto;
  Encrypt encrypt = Encrypt::kAuto;
  CompressSetting compress;
  size_t machines = 1;
  std::vector<Worker> workers;
};
// The reason why gradients do not go over NCCL; empty when they do.
std::string why_not_nccl(const NcclQuestion& question);

// Throws ConfigError for --transport nccl on a worker that computes on the CPU.
void check_transport(const Device& device, const TrainOptions& options);

// Decides the same on all ranks. Throws ConfigError when --transport nccl is not available. Where
// `compress` is auto, drop_nccl_if_unused() follows once a method is chosen.
GpuTransport choose_transport(Job& job, const Device& device, const TrainOptions& options,
                              const CompressSetting& compress);
// Methods that are computed on the host go through host memory.
void drop_nccl_if_unused(GpuTransport& transport, const CompressSetting& compress);

}  // namespace reigen
