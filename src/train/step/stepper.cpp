#include "train/step/stepper.h"

#include <utility>

#include "base/error.h"
#include "train/step/cpu_stepper.h"
#include "train/step/gpu_stepper.h"

namespace reigen {

SwappedWeights::SwappedWeights(std::function<void()> swap) : swap_(std::move(swap)) {
  if (swap_) swap_();
}

SwappedWeights::~SwappedWeights() {
  try {
    end();
  } catch (const std::exception&) {  // the error that ends the scope is the one to report
  }
}

void SwappedWeights::end() {
  if (const auto swap = std::exchange(swap_, nullptr)) swap();
}

void check_sharding(const Device& device, const TrainOptions& options) {
  if (!options.workers.shard_optimizer) return;
  if (options.optimizer.kind == OptimizerKind::kMuon) {
    throw ConfigError(
        "--shard-optimizer cannot be combined with optimizer.kind muon, which needs whole "
        "matrices: the shards of the moments are cut without regard to them; leave it out "
        "or use optimizer.kind adam");
  }
  if (device.kind() == DeviceKind::kGpu) {
    throw ConfigError(
        "--shard-optimizer is available on the CPU only, and this worker computes on a GPU; leave "
        "it out");
  }
  if (options.workers.compress.method == CompressMethod::kLocal) {
    throw ConfigError(
        "--shard-optimizer cannot be combined with --compress local: between outer steps each "
        "worker needs all of its moments; leave one of them out");
  }
}

std::unique_ptr<Stepper> make_stepper(const Device& device, DType type, Transformer& model,
                                      const TrainOptions& options, TrainState& state, Job& job,
                                      Group* direct) {
  if (device.kind() == DeviceKind::kGpu) {
    return std::make_unique<GpuStepper>(device, type, model, options, state, job, direct);
  }
  return std::make_unique<CpuStepper>(device, model, options, state, job);
}

}  // namespace reigen
