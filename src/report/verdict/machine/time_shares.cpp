// Splits the time of a run by cause, and finds the rank that the others waited for.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/statistics.h"
#include "report/verdict/machine/bottleneck.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

double span_of(const StepRecord& record, const char* name) {
  for (const auto& [span, seconds] : record.spans) {
    if (span == name) return seconds;
  }
  return 0;
}

// Time of a rank without waiting for others.
double own_work(const RankSummary& rank, const StepInterval& steps) {
  const RollupTable& t = rank.spans;
  return t.total("seconds", steps) - t.total("communication", steps);
}

bool same_workers(const RunSummary& run) {
  return std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
    return start.workers == run.starts[0].workers;
  });
}

// A run may resume with a different number of workers, whose steps cannot be compared. Ranks whose
// logs are only a little behind can.
bool ranks_compare(const RunSummary& run, const StepInterval& steps) {
  if (!run.starts.empty() && same_workers(run)) return true;
  double least = INFINITY;
  double most = 0;
  for (const auto& [rank, summary] : run.ranks) {
    least = std::min(least, summary.spans.total("steps", steps));
    most = std::max(most, summary.spans.total("steps", steps));
  }
  return least >= kSameSteps * most;
}

// Ranks that took part in the interval, by their own work per step.
struct RankWork {
  int rank = 0;
  double work = 0;
  double descheduled = 0;  // share of its time
};

std::vector<RankWork> works_of(const RunSummary& run, const StepInterval& steps) {
  std::vector<RankWork> works;
  for (const auto& [rank, summary] : run.ranks) {
    const double count = summary.spans.total("steps", steps);
    if (count == 0) continue;
    works.push_back({rank, own_work(summary, steps) / count,
                     summary.spans.total("descheduled_seconds", steps) /
                         std::max(1e-9, summary.spans.total("seconds", steps))});
  }
  return works;
}

// A quarter of the ranks is at least as fast: several slow ranks do not hide each other, and one
// very fast rank does not make the others slow.
double usual_work(std::vector<RankWork> works) {
  const size_t at = (works.size() - 1) / 4;
  std::nth_element(works.begin(), works.begin() + static_cast<std::ptrdiff_t>(at), works.end(),
                   [](const RankWork& a, const RankWork& b) { return a.work < b.work; });
  return works[at].work;
}

bool computes_on_gpu(const RunSummary& run) {
  return !run.starts.empty() && run.starts.back().device_kind == "gpu";
}

SlowReason reason_of_rank(const RunSummary& run, int rank, const StepInterval& steps,
                          const std::map<int, WorkerUse>& uses) {
  if (computes_on_gpu(run)) {
    const GpuUse gpus = gpu_use(run, rank, steps);
    return gpus.shared() ? SlowReason::kGpuOthers
           : gpus.slow() ? SlowReason::kGpuSlowed
                         : SlowReason::kUnknown;
  }
  const auto found = uses.find(rank);
  if (found == uses.end() || !found->second.known) return SlowReason::kUnknown;
  const WorkerUse& use = found->second;
  if (use.lost_to_others >= kLostShare && use.lost_to_others >= use.lost_to_workers) {
    return SlowReason::kOthers;
  }
  if (use.lost_to_workers >= kLostShare) {
    return use.sharing.size() > 1 ? SlowReason::kSharedCores : SlowReason::kFewerCores;
  }
  if (use.lost_to_hypervisor >= kLostShare) return SlowReason::kSteal;
  double most = 0;
  double threads = 0;
  for (const auto& [other, theirs] : uses) {
    if (!theirs.known) continue;
    most = std::max(most, theirs.cores);
    threads = std::max(threads, theirs.threads);
  }
  if (use.threads > 0 && use.threads < threads) return SlowReason::kFewerThreads;
  if (use.cores < most && use.own >= kFullCoresShare * use.cores) return SlowReason::kFewerCores;
  if (use.short_of_memory()) return SlowReason::kMemory;
  return use.denied_known ? SlowReason::kHardware : SlowReason::kUnknown;
}

void find_slowest(const RunSummary& run, const StepInterval& steps,
                  const std::map<int, WorkerUse>& uses, TimeShares& shares) {
  const std::vector<RankWork> works = works_of(run, steps);
  if (works.empty()) return;
  const auto slowest =
      std::max_element(works.begin(), works.end(),
                       [](const RankWork& a, const RankWork& b) { return a.work < b.work; });
  const auto stopped = std::max_element(
      works.begin(), works.end(),
      [](const RankWork& a, const RankWork& b) { return a.descheduled < b.descheduled; });
  shares.slowest_rank = slowest->rank;
  shares.descheduled_rank = stopped->rank;
  shares.descheduled_share = stopped->descheduled;
  if (works.size() < 2) return;
  const double usual = std::max(1e-9, usual_work(works));
  shares.slowest_ratio = slowest->work / usual;
  for (const RankWork& w : works) {
    const double ratio = w.work / usual;
    if (ratio >= kSlowRankInRun)
      shares.late.push_back({w.rank, ratio, reason_of_rank(run, w.rank, steps, uses)});
  }
  std::stable_sort(shares.late.begin(), shares.late.end(),
                   [](const LateRank& a, const LateRank& b) { return a.ratio > b.ratio; });
  std::vector<double> descheduled;
  for (const RankWork& w : works) {
    if (w.rank != stopped->rank) descheduled.push_back(w.descheduled);
  }
  if (shares.descheduled_share < kDescheduledShare + 2 * median(descheduled)) return;
  shares.slowest_rank = shares.descheduled_rank;
  shares.slowest_ratio = std::max(stopped->work / usual, kSlowRankInRun);
  shares.descheduled = true;
  std::erase_if(shares.late, [&](const LateRank& late) { return late.rank == stopped->rank; });
  shares.late.insert(shares.late.begin(),
                     {stopped->rank, stopped->work / usual, SlowReason::kQuota});
}

double per_step(const RankSummary& rank, const StepInterval& steps, double seconds) {
  return seconds / std::max(1.0, rank.spans.total("steps", steps));
}

// The slowest rank may be late because of its input: then the others waited for a disk and not for
// a processor. A descheduled rank also reads late, but not because of its disk.
void find_late_input(const RunSummary& run, const StepInterval& steps, TimeShares& shares) {
  if (shares.slowest_ratio < kSlowRankInRun || shares.descheduled) return;
  const RankSummary& slowest = run.ranks.at(shares.slowest_rank);
  std::vector<double> works;
  std::vector<double> inputs;
  for (const auto& [rank, summary] : run.ranks) {
    if (rank == shares.slowest_rank || summary.spans.total("steps", steps) == 0) continue;
    works.push_back(per_step(summary, steps, own_work(summary, steps)));
    inputs.push_back(per_step(summary, steps, summary.spans.total("input", steps)));
  }
  const double work = per_step(slowest, steps, own_work(slowest, steps)) - median(works);
  const double input =
      per_step(slowest, steps, slowest.spans.total("input", steps)) - median(inputs);
  shares.late_input = std::clamp(input, 0.0, std::max(0.0, work));
  if (shares.late_input > work / 2) shares.late_input_rank = shares.slowest_rank;
}

bool is_late(const TimeShares& shares, int rank) {
  return std::any_of(shares.late.begin(), shares.late.end(),
                     [&](const LateRank& late) { return late.rank == rank; });
}

// Splits rank 0's waiting into network and straggler. All ranks leave an exchange together, so the
// rank with the shortest wait arrived last, and that wait is the network's. The ranks exchange
// their waits in every step.
void split_waiting(const RunSummary& run, const StepInterval& steps, double waited,
                   const StepRecord& first_step, const std::map<int, WorkerUse>& uses,
                   TimeShares& shares) {
  shares.comparable = ranks_compare(run, steps);
  if (shares.comparable) find_slowest(run, steps, uses, shares);
  shares.network = waited;
  const bool alone = run.ranks.size() < 2;
  if (alone && (run.starts.empty() || run.starts.back().workers < 2)) return;
  const RollupTable& mine = run.ranks.at(0).spans;
  const double count = mine.total("steps", steps);
  const double first_wait = first_step.communication ? first_step.communication->min_wait : 0;
  shares.network = std::clamp(mine.total("min_wait", steps) - first_wait, 0.0, waited);
  shares.straggler = waited - shares.network;
  if (alone) {  // the logs of the others arrive from time to time
    shares.slowest_rank = -1;
    shares.slowest_ratio = kSlowRankInRun;
    return;
  }
  if (shares.comparable && shares.late.empty()) {
    shares.late_in_turn = std::exchange(shares.straggler, 0);
    return;
  }
  find_late_input(run, steps, shares);
  const double late_input = shares.late_input * count;
  if (is_late(shares, 0)) {
    // Rank 0 did not wait itself: the others waited for its compute or its input.
    std::vector<double> waits;
    for (const auto& [rank, summary] : run.ranks) {
      const double theirs = summary.spans.total("steps", steps);
      if (is_late(shares, rank) || theirs == 0) continue;
      const double both = std::min(1.0, count / theirs);
      waits.push_back(summary.spans.total("communication", steps) * both);
    }
    shares.awaited = std::clamp(median(waits) - waited - late_input, 0.0, shares.compute);
    shares.compute -= shares.awaited;
    shares.straggler += shares.awaited;
  } else {
    const double late = std::min(shares.straggler, late_input);
    shares.straggler -= late;
    shares.input += late;
  }
  // A descheduled worker is also late within an exchange, and then all ranks wait.
  if (shares.slowest_ratio >= kSlowRankInRun && shares.slowest_rank == shares.descheduled_rank) {
    const double late =
        std::min(shares.network, shares.descheduled_share * mine.total("seconds", steps));
    shares.network -= late;
    shares.straggler += late;
  }
}

// The longest time that the threads of any rank waited for a core; negative where it is unknown.
double longest_delay(const std::map<int, WorkerUse>& uses, double seconds) {
  double longest = -1;
  for (const auto& [rank, use] : uses) {
    if (!use.known || !use.denied_known) continue;
    const double rate = use.own * use.denied / std::max(1e-3, 1 - use.denied);
    longest = std::max(longest, rate * seconds);
  }
  return longest;
}

// Time of exchanges beyond the need of the link for their bytes, while all cores were busy. Waiting
// for a link leaves a core idle; where none is idle, the wait is for a core. It is no longer than
// the threads waited for one: a link that becomes slow beside other work is still the network.
void split_contention(const RunSummary& run, const StepInterval& steps,
                      const std::map<int, WorkerUse>& uses, TimeShares& shares) {
  const auto first = run.ranks.find(0);
  if (run.predictions.empty() || first == run.ranks.end()) return;
  const PredictionRecord& link = run.predictions.back();
  const RollupTable& machine = first->second.machine;
  const double sampled = machine.total("seconds", steps);
  if (link.bandwidth <= 0 || sampled <= 0 ||
      machine.total("cpu", steps) / sampled < kBusyCoresPercent)
    return;
  const RollupTable& mine = first->second.spans;
  // Without the latency: measured on busy cores, it is mostly waiting for a core.
  const double needed = mine.total("sent", steps) / link.bandwidth;
  shares.contention = std::max(0.0, shares.network - kLinkTimeMargin * needed);
  const double delay = longest_delay(uses, mine.total("seconds", steps));
  if (delay >= 0) shares.contention = std::min(shares.contention, delay);
  shares.network -= shares.contention;
}

// Seconds by which a step is longer that a checkpoint is written beside, by a line through all
// steps. Zero where steps with and without writing do not differ clearly.
double writing_cost(const RunSummary& run) {
  constexpr double kClear = 3;  // standard errors
  const RollupTable& t = run.steps;
  const StepRecord first = run.first_step.value_or(StepRecord{});
  const double x = first.writing_share();
  const double y = first.seconds;
  const double n = t.total("steps") - 1;
  if (n < kFewestSteps) return 0;
  const double sum_x = t.total("writing_share") - x;
  const double sum_y = t.total("seconds") - y;
  const double xx = t.total("writing_squared") - x * x - sum_x * sum_x / n;
  const double xy = t.total("writing_product") - x * y - sum_x * sum_y / n;
  const double yy = t.total("seconds_squared") - y * y - sum_y * sum_y / n;
  if (xx <= 1e-6 * n || xy <= 0) return 0;
  const double slope = xy / xx;
  const double error = std::sqrt(std::max(0.0, yy - slope * xy) / (n - 2) / xx);
  return slope > kClear * error ? slope : 0;
}

// Moves shares of the computing time to the causes that made the same work take longer.
class LostCompute {
 public:
  explicit LostCompute(TimeShares& shares) : all_(shares.compute), shares_(shares) {}
  double take(double share) {
    const double part = std::min(shares_.compute, all_ * std::max(0.0, share));
    shares_.compute -= part;
    return part;
  }

 private:
  double all_;
  TimeShares& shares_;
};

// A worker that is stopped as a whole neither runs nor waits for a core. Where there are several,
// the others wait for it. A quota also stops a worker as a whole, and is known by itself.
void split_stopped(double seconds, double lost_to_quota, TimeShares& shares) {
  const double stopped = shares.descheduled_share * seconds - lost_to_quota * shares.compute;
  if (stopped < kDescheduledShare * seconds) return;
  shares.stopped = std::min(shares.compute, stopped);
  shares.compute -= shares.stopped;
}

// A quota, other processes, or more workers than cores.
void split_lost_cores(const RunSummary& run, const StepInterval& steps,
                      const std::map<int, WorkerUse>& uses, TimeShares& shares) {
  const auto found = uses.find(0);
  const bool known = found != uses.end() && found->second.known;
  const bool alone = run.ranks.size() < 2 && (run.starts.empty() || run.starts.back().workers < 2);
  if (alone) {
    split_stopped(run.ranks.at(0).spans.total("seconds", steps),
                  known ? found->second.lost_to_quota : 0, shares);
  }
  if (!known) return;
  const WorkerUse& use = found->second;
  LostCompute lost(shares);
  shares.quota = lost.take(use.lost_to_quota);
  shares.steal = lost.take(use.lost_to_hypervisor);
  shares.interference = lost.take(use.lost_to_others);
  shares.shared_cores = lost.take(use.lost_to_workers);
  shares.memory = lost.take(use.lost_to_memory);
}

// A share of the multiprocessors' time that others had, and of their clock. Work that waits for
// memory depends less on the clock.
void split_lost_gpu(const RunSummary& run, const StepInterval& steps, TimeShares& shares) {
  const GpuUse use = gpu_use(run, 0, steps);
  LostCompute lost(shares);
  if (use.other_use_known) shares.gpu_shared = lost.take(use.other_use);
  if (use.clock_known) shares.gpu_slowed = lost.take(use.lost_clock);
}

bool same_machines(const RunSummary& run) {
  return same_workers(run) &&
         std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
           return start.host == run.starts[0].host && start.device == run.starts[0].device &&
                  start.threads == run.starts[0].threads;
         });
}

}  // namespace

Efficiency efficiency(const RunSummary& run, const TimeShares& shares) {
  Efficiency e;
  if (run.starts.empty() || shares.all_compute() <= 0 || !same_machines(run)) return e;
  const StartRecord& start = run.starts.back();
  const StepRecord first_step = run.first_step.value_or(StepRecord{});
  const double source =
      run.steps.total("source_tokens") - static_cast<double>(first_step.source_tokens);
  const double target =
      run.steps.total("target_tokens") - static_cast<double>(first_step.target_tokens);
  e.achieved = (source * start.source_token_flops + target * start.target_token_flops) /
               (shares.all_compute() + shares.lost_compute() + shares.writing);
  // Other load only makes a measurement slower, so the fastest of all attempts counts.
  for (const StartRecord& each : run.starts) {
    e.capacity = std::max(e.capacity, each.capacity);
    const double low = each.capacity_low > 0 ? each.capacity_low : each.capacity;
    if (low > 0) e.capacity_low = e.capacity_low > 0 ? std::min(e.capacity_low, low) : low;
  }
  // Measured while other work had the cores, it may be less than what the run reached later.
  if (e.capacity > 0) e.capacity = std::max(e.capacity, e.achieved);
  return e;
}

TimeShares time_shares(const RunSummary& run, const StepInterval& steps,
                       const std::map<int, WorkerUse>& uses) {
  TimeShares shares;
  const auto first = run.ranks.find(0);
  if (first == run.ranks.end()) return shares;
  const RollupTable& t = first->second.spans;
  // The first step is not counted: it also allocates memory and chooses algorithms.
  StepRecord first_step;
  if (run.first_step && static_cast<double>(run.first_step->step) >= steps.first) {
    first_step = *run.first_step;
  }
  auto spent = [&](const char* name) {
    return std::max(0.0, t.total(name, steps) - span_of(first_step, name));
  };
  auto within = [&](const auto& record) {
    const auto step = static_cast<double>(record.step);
    return step >= steps.first && step <= steps.last;
  };
  shares.input = spent("input");
  shares.compute = spent("forward") + spent("loss") + spent("backward") + spent("optimizer");
  shares.compression = spent("compression");
  split_waiting(run, steps, spent("communication"), first_step, uses, shares);
  split_contention(run, steps, uses, shares);
  if (computes_on_gpu(run)) {
    split_lost_gpu(run, steps, shares);
  } else {
    split_lost_cores(run, steps, uses, shares);
  }
  for (const EvaluationRecord& e : run.evaluations) {
    if (within(e)) shares.evaluation += e.seconds;
  }
  for (const CheckpointRecord& c : run.checkpoints) {
    if (within(c)) shares.checkpoint += c.stall_seconds;
  }
  const double seconds = std::max(0.0, t.total("seconds", steps) - first_step.seconds);
  shares.logging = spent("observe");
  shares.other =
      std::max(0.0, seconds - shares.input - shares.all_compute() - shares.lost_compute() -
                        shares.compression - shares.network - (shares.straggler - shares.awaited) -
                        shares.late_in_turn - shares.contention - shares.logging);
  shares.writing =
      std::min(shares.compute, writing_cost(run) * run.steps.total("writing_share", steps));
  shares.compute -= shares.writing;
  shares.total = seconds + shares.evaluation + shares.checkpoint;
  shares.checkpoint += shares.writing;
  return shares;
}

TimeShares time_shares(const RunSummary& run) { return time_shares(run, {}, worker_use(run)); }

}  // namespace reigen
