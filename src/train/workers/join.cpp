#include "train/workers/join.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "device/cuda_info.h"
#include "device/device.h"
#include "dist/launch/launch.h"

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

// One GPU for each worker of a machine; where there are fewer GPUs, workers share them.
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

// The interface that NCCL uses between machines: that of our own data. NCCL takes it from the
// environment only, but it is known only after joining, when threads run and setenv() is not
// allowed any more: a getenv() at the same time is undefined. So the variable is put into the
// environment before the first thread starts, with an empty value, which NCCL ignores; afterwards
// only bytes of its value change, which nothing reads before NCCL is loaded. A value set by the
// user stays.
class NcclInterface {
 public:
  NcclInterface() {
    if (std::getenv(kName) != nullptr) return;
    std::snprintf(variable_, sizeof variable_, "%s=", kName);
    putenv(variable_);
    reserved_ = true;
  }
  void set(const std::string& name) const {
    if (!reserved_) return;
    const size_t prefix = std::strlen(kName) + 1;
    std::snprintf(variable_ + prefix, sizeof variable_ - prefix, "=%s", name.c_str());
  }

 private:
  static constexpr const char* kName = "NCCL_SOCKET_IFNAME";
  static inline char variable_[64] = {};  // part of the environment from then on
  bool reserved_ = false;
};

// Refuses what a lost worker would take with it, or what would end the survivors.
void check_elastic(const WorkerOptions& options, const Placement& placement) {
  if (!options.elastic) return;
  check_elastic_compression(options.elastic, options.compress);
  if (options.shard_optimizer) {
    throw ConfigError(
        "--elastic cannot be combined with --shard-optimizer: a lost worker's share of the moments "
        "is nowhere else; leave one of them out");
  }
  if (placement.launcher == Launcher::kTorchrun) {
    throw ConfigError(
        "--elastic cannot be used under torchrun, whose agent ends the surviving workers; use "
        "--workers, --hosts, mpirun or srun, or leave it out");
  }
}

// Without a secret, anyone who guesses the name of a job could vote on its membership.
void check_secret_of_elastic(const WorkerOptions& options, const Membership& membership) {
  if (!options.elastic || membership.secret()) return;
  if (first_rank_of_each_machine(membership.control().members()).size() == 1) return;
  throw ConfigError(
      "--elastic between hosts needs a secret, and the job has none (--insecure); use --token-file "
      "or REIGEN_TOKEN, or leave --elastic out");
}

}  // namespace

void check_elastic_compression(bool elastic, const CompressSetting& compress) {
  if (!elastic || compress.method != CompressMethod::kLocal) return;
  throw ConfigError(
      "--elastic cannot be combined with --compress local: between outer steps the workers have "
      "different weights, and the work of a lost one could not be done again; leave one of them "
      "out, or give a different --compress");
}

bool was_placed() {
  const std::optional<Placement> placement = detect_launch();
  return placement && placement->launcher == Launcher::kReigen;
}

bool started_as_worker() {
  const std::optional<Placement> placement = detect_launch();
  return placement && placement->size > 1;
}

std::optional<Placement> placed_to_join() {
  std::optional<Placement> placement = detect_launch();
  if (placement && placement->join.empty()) placement.reset();
  return placement;
}

void divide_machine(TrainOptions& options, const Placement& placement) {
  const int local = std::max(1, placement.local_size);
  if (options.threads == 0) options.threads = std::max(1, usable_cores() / local);
  place_on_gpu(options.device, placement);
  const bool on_gpu = options.device.device.starts_with("cuda");
  if (options.memory == 0 && !on_gpu)
    options.memory = available_memory() / 2 / static_cast<uint64_t>(local);
}

Job join_job(TrainOptions& options, const std::string& version) {
  const std::optional<Placement> placement = detect_launch();
  if (placement) check_elastic(options.workers, *placement);
  if (!placement || placement->size <= 1) return {};
  if (placement->launcher != Launcher::kReigen && placement->rank == 0 &&
      options.workers.restarts > 0) {
    log_warning(
        format("--restarts has no effect on workers that {} starts; start the same command "
               "again, and it resumes from the last checkpoint",
               name_of(placement->launcher)));
  }
  MembershipOptions membership =
      prepare_rendezvous(*placement, {options.workers.token_file, options.workers.insecure});
  membership.encrypt = options.workers.encrypt;
  const NcclInterface nccl;
  divide_machine(options, *placement);
  membership.interface = options.workers.interface;
  membership.start_within = milliseconds(options.workers.start_within);
  membership.silence = milliseconds(options.workers.silence);
  membership.timeout = milliseconds(options.workers.stall);
  membership.elastic = options.workers.elastic;
  membership.pause_limit = milliseconds(options.workers.pause);
  membership.facts["version"] = version;
  add_facts(options.same_for_all, "", membership.facts);
  auto joined = std::make_unique<Membership>(std::move(membership));
  check_secret_of_elastic(options.workers, *joined);
  nccl.set(joined->interface().name);
  if (!joined->interface_note().empty()) {
    log_warning(format("traffic between workers: {}", joined->interface_note()));
  }
  return Job(std::move(joined));
}

}  // namespace reigen
