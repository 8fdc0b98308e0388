#include "train/workers/join.h"

#include <algorithm>

#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "device/device.h"
#include "dist/launch/launch.h"
#include "ops/gpu_ops.h"

namespace reigen {
namespace {

void add_facts(const Json& options, const std::string& prefix,
               std::map<std::string, std::string>& facts) {
  for (const auto& [key, value] : options.items()) {
    const std::string path = prefix + key;
    if (value.is_object()) {
      add_facts(value, path + ".", facts);
    } else {
      facts["option " + path] = one_line(value);
    }
  }
}

// A GPU for each worker of a machine while there are enough; then they share.
void place_on_gpu(DeviceOptions& options, const Placement& placement) {
  const int gpus = usable_gpus();
  const DeviceChoice choice = parse_device(options.device);
  if (gpus == 0 || (!choice.automatic && !choice.gpu)) return;
  const bool spread = options.device == "auto" || options.device == "cuda";
  if (spread) options.device = format("cuda:{}", placement.local_rank % gpus);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

}  // namespace

bool started_as_worker() {
  const std::optional<Placement> placement = detect_launch();
  return placement && placement->size > 1;
}

Job join_job(TrainOptions& options, const std::string& version) {
  std::optional<Placement> placement = detect_launch();
  if (!placement || placement->size <= 1) return {};
  const int local = std::max(1, placement->local_size);
  if (options.threads == 0) options.threads = std::max(1, usable_cores() / local);
  place_on_gpu(options.device, *placement);
  const bool on_gpu = options.device.device.starts_with("cuda");
  if (options.memory == 0 && !on_gpu)
    options.memory = available_memory() / 2 / static_cast<uint64_t>(local);
  MembershipOptions membership = prepare_rendezvous(std::move(*placement));
  membership.interface = options.workers.interface;
  membership.start_within = milliseconds(options.workers.start_within);
  membership.silence = milliseconds(options.workers.silence);
  membership.timeout = milliseconds(options.workers.stall);
  membership.facts["version"] = version;
  add_facts(options.same_for_all, "", membership.facts);
  auto joined = std::make_unique<Membership>(std::move(membership));
  if (!joined->interface_note().empty()) {
    log_warning(format("data between workers: {}", joined->interface_note()));
  }
  return Job(std::move(joined));
}

}  // namespace reigen
