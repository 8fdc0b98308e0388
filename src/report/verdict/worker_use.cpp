#include "report/verdict/worker_use.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "observe/sample/process_counters.h"
#include "report/verdict/thresholds.h"

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
  w.use.stolen = t.total("stolen", steps) / seconds;
  w.use.major_faults = t.total("major_faults", steps) / seconds;
  const double delay_known = t.total("delay_known", steps);
  w.use.denied_known = delay_known >= kFewestUseSeconds;
  if (w.use.denied_known) {
    const double delay = t.total("delay", steps) / delay_known;
    w.use.denied = delay / std::max(1e-9, delay + w.use.own);
  }
  return w;
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

GpuUse gpu_use(const RunSummary& run, int rank, const StepInterval& steps) {
  // The lowest rank of each host samples it.
  const RankSummary* host = nullptr;
  for (const auto& [each, summary] : run.ranks) {
    if (each <= rank && summary.last_sample) host = &summary;
  }
  if (host == nullptr || host->last_sample->gpus.empty()) return {};
  const double seconds = std::max(1e-9, host->machine.total("seconds", steps));
  return {host->machine.total("gpu_others", steps) / seconds,
          host->machine.total("gpu_slowed", steps) / seconds};
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
    find_losses(std::max(1.0, threads), w);
  }
  for (Worker& w : workers) uses[w.rank] = std::move(w.use);
  return uses;
}

}  // namespace reigen
