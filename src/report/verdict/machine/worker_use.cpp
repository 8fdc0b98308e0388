#include "report/verdict/machine/worker_use.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "observe/sample/process_counters.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

struct Worker {
  int rank = 0;
  std::string machine;
  std::vector<int> cores;
  WorkerUse use;
  double busy = 0;  // cores of its list that any process used
};

Worker worker_of(int rank, const RankSummary& summary, const StepInterval& steps) {
  const RollupTable& t = summary.process;
  Worker w{.rank = rank};
  const double seconds = t.total("seconds", steps);
  if (!summary.last_process || seconds < kFewestUseSeconds) return w;
  const ProcessRecord& last = *summary.last_process;
  w.machine = last.machine;
  w.cores = cores_in(last.cores);
  w.busy = t.total("cores_busy", steps) / seconds;
  w.use.known = true;
  w.use.list = last.cores;
  w.use.quota = last.core_limit;
  w.use.cores = t.total("core_seconds", steps) / seconds;
  if (last.core_limit > 0) w.use.cores = std::min(w.use.cores, last.core_limit);
  w.use.own = t.total("cpu", steps) / seconds;
  w.use.threads = static_cast<double>(last.threads);
  w.use.memory_limit = static_cast<double>(last.memory_limit);
  w.use.idle = std::max(0.0, static_cast<double>(w.cores.size()) - w.busy);
  w.use.stolen = t.total("stolen", steps) / seconds;
  w.use.major_faults = t.total("major_faults", steps) / seconds;
  w.use.lost_to_hypervisor = w.use.stolen / std::max(1e-9, w.use.stolen + w.busy);
  double throttled = t.total("throttled", steps) / seconds;
  const double delay_known = t.total("delay_known", steps);
  w.use.denied_known = delay_known >= kFewestUseSeconds;
  if (w.use.denied_known) {
    // A thread that a quota has stopped is runnable, and the time of its group has those of others.
    const double delay = t.total("delay", steps) / delay_known;
    throttled = std::min(throttled, delay);
    w.use.denied = (delay - throttled) / std::max(1e-9, delay + w.use.own);
  }
  w.use.lost_to_quota = throttled / std::max(1e-9, throttled + w.use.own);
  const double input_known = t.total("input_known", steps);
  w.use.input_known = input_known >= kFewestUseSeconds;
  if (w.use.input_known) {
    w.use.input_running = t.total("input_running", steps) / input_known;
    w.use.input_waiting = t.total("input_delay", steps) / input_known;
  }
  return w;
}

void find_memory(const RunSummary& run, const StepInterval& steps, Worker& w) {
  const RankSummary* host = host_of(run, w.rank);
  if (host == nullptr) return;
  const double known = host->machine.total("pressure_known", steps);
  w.use.pressure_known = known >= kFewestUseSeconds;
  if (!w.use.pressure_known) return;
  constexpr double kPercent = 100;
  w.use.pressure = host->machine.total("pressure", steps) / known / kPercent;
  if (w.use.major_faults >= kManyFaults) w.use.lost_to_memory = w.use.pressure;
}

void find_siblings(const std::vector<Worker>& workers, Worker& w) {
  for (const Worker& other : workers) {
    if (other.rank == w.rank || other.machine.empty() || other.machine != w.machine) continue;
    std::vector<int> both;
    std::set_intersection(w.cores.begin(), w.cores.end(), other.cores.begin(), other.cores.end(),
                          std::back_inserter(both));
    if (both.empty()) continue;
    w.use.siblings +=
        other.use.own * static_cast<double>(both.size()) / static_cast<double>(other.cores.size());
    if (w.use.sharing.empty()) w.use.sharing.push_back(w.rank);
    w.use.sharing.push_back(other.rank);
  }
  std::sort(w.use.sharing.begin(), w.use.sharing.end());
}

// Without run delays, cores that are not full deny nothing, and full ones are shared by use.
void find_losses(double threads, Worker& w) {
  WorkerUse& use = w.use;
  use.others = std::max(0.0, w.busy - use.own - use.siblings);
  if (use.others < kFewestOtherCores) use.others = 0;
  const auto cores = static_cast<double>(w.cores.size());
  const double workers = std::max<double>(1, static_cast<double>(use.sharing.size()));
  const bool too_many = threads * workers > cores;
  const double siblings = too_many ? use.siblings : 0;
  // Of more threads than cores, those beyond the cores wait for the rest.
  const double self = threads > cores ? use.own * (1 - cores / threads) : 0;
  const double competing = use.others + siblings + self;
  if (competing <= 0 || cores <= 0) return;
  double denied = use.denied;
  if (!use.denied_known) denied = w.busy >= kFullCoresShare * cores ? competing / w.busy : 0;
  const double limit = use.others / std::max(1e-9, use.others + use.own);
  // The threads of a worker meet after every operation: where one waits, all do.
  use.lost_to_others = std::min(limit, threads * denied * use.others / competing);
  use.lost_to_workers = denied * (siblings + self) / competing;
}

}  // namespace

const RankSummary* host_of(const RunSummary& run, int rank) {
  const RankSummary* host = nullptr;
  for (const auto& [each, summary] : run.ranks) {
    if (each <= rank && summary.last_sample) host = &summary;
  }
  return host;
}

bool WorkerUse::short_of_memory() const {
  return major_faults >= kManyFaults && (!pressure_known || lost_to_memory >= kLostShare);
}

bool WorkerUse::waits_for_others() const {
  return known && denied_known && denied >= kLostShare && others >= kFewestOtherCores;
}

double idle_threads(const WorkerUse& use) {
  const double workers = std::max<double>(1, static_cast<double>(use.sharing.size()));
  const double granted = use.cores - workers * use.threads;
  // What the kernel and the observation itself use leaves a core idle.
  return std::max(0.0, std::floor(std::min(use.idle + kMostlyIdle, granted) / workers));
}

bool GpuUse::shared() const {
  return other_use_known ? other_use >= kLostShare : others >= kGpuOthers;
}

bool GpuUse::slow() const {
  return clock_known ? lost_clock >= kLostShare : slowed >= kGpuSlowedShare;
}

GpuUse gpu_use(const RunSummary& run, int rank, const StepInterval& steps) {
  const RankSummary* host = host_of(run, rank);
  if (host == nullptr || host->last_sample->gpus.empty()) return {};
  const RollupTable& t = host->machine;
  const double seconds = std::max(1e-9, t.total("seconds", steps));
  GpuUse use{.others = t.total("gpu_others", steps) / seconds,
             .slowed = t.total("gpu_slowed", steps) / seconds};
  const double clock_known = t.total("gpu_clock_known", steps);
  use.clock_known = clock_known > 0;
  if (use.clock_known) use.lost_clock = t.total("gpu_lost_clock", steps) / clock_known;
  const double use_known = t.total("gpu_other_use_known", steps);
  use.other_use_known = use_known > 0;
  if (use.other_use_known) use.other_use = t.total("gpu_other_use", steps) / use_known;
  for (const GpuSample& gpu : host->last_sample->gpus) {
    if (!gpu.slowed_by.empty()) use.slowed_by = gpu.slowed_by;
  }
  return use;
}

std::map<int, WorkerUse> worker_use(const RunSummary& run, const StepInterval& steps) {
  std::vector<Worker> workers;
  for (const auto& [rank, summary] : run.ranks) {
    workers.push_back(worker_of(rank, summary, steps));
  }
  const double threads = run.starts.empty() ? 1 : static_cast<double>(run.starts.back().threads);
  std::map<int, WorkerUse> uses;
  for (Worker& w : workers) {
    if (!w.use.known) continue;
    find_siblings(workers, w);
    find_losses(std::max(1.0, w.use.threads > 0 ? w.use.threads : threads), w);
    find_memory(run, steps, w);
  }
  for (Worker& w : workers) uses[w.rank] = std::move(w.use);
  return uses;
}

}  // namespace reigen
