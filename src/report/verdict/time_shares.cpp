// Splits the time of a run by cause, and finds the rank that the others waited for.
#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "report/verdict/thresholds.h"
#include "report/verdict/verdicts.h"

namespace reigen {
namespace {

double span_of(const StepRecord& record, const char* name) {
  for (const auto& [span, seconds] : record.spans) {
    if (span == name) return seconds;
  }
  return 0;
}

// Time of a rank without waiting for others.
double own_work(const RankSummary& rank) {
  const RollupTable& t = rank.spans;
  return t.total("seconds") - t.total("communication");
}

bool same_workers(const RunSummary& run) {
  return std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
    return start.workers == run.starts[0].workers;
  });
}

// A run may resume with a different number of workers, whose steps cannot be compared. Ranks whose
// logs are only a little behind can.
bool ranks_compare(const RunSummary& run) {
  if (!run.starts.empty() && same_workers(run)) return true;
  double least = INFINITY;
  double most = 0;
  for (const auto& [rank, summary] : run.ranks) {
    least = std::min(least, summary.spans.total("steps"));
    most = std::max(most, summary.spans.total("steps"));
  }
  return least >= kSameSteps * most;
}

void find_slowest(const RunSummary& run, TimeShares& shares) {
  std::vector<double> works;
  std::vector<double> descheduled;
  double slowest = -1;
  for (const auto& [rank, summary] : run.ranks) {
    const double steps = summary.spans.total("steps");
    if (steps == 0) continue;
    works.push_back(own_work(summary) / steps);
    descheduled.push_back(summary.spans.total("descheduled_seconds") /
                          std::max(1e-9, summary.spans.total("seconds")));
    if (works.back() > slowest) {
      slowest = works.back();
      shares.slowest_rank = rank;
    }
    if (shares.descheduled_rank < 0 || descheduled.back() > shares.descheduled_share) {
      shares.descheduled_rank = rank;
      shares.descheduled_share = descheduled.back();
    }
  }
  if (works.size() < 2) return;
  works.erase(std::max_element(works.begin(), works.end()));
  shares.slowest_ratio = slowest / std::max(1e-9, median(works));
  descheduled.erase(std::max_element(descheduled.begin(), descheduled.end()));
  if (shares.descheduled_share < kDescheduledShare + 2 * median(descheduled)) return;
  shares.slowest_rank = shares.descheduled_rank;
  shares.slowest_ratio = std::max(shares.slowest_ratio, kSlowRankInRun);
  shares.descheduled = true;
}

double per_step(const RankSummary& rank, double seconds) {
  return seconds / std::max(1.0, rank.spans.total("steps"));
}

// The slowest rank may be late because of its input: then the others waited for a disk and not for
// a processor. A descheduled rank also reads late, but not because of its disk.
void find_late_input(const RunSummary& run, TimeShares& shares) {
  if (shares.slowest_ratio < kSlowRankInRun || shares.descheduled) return;
  const RankSummary& slowest = run.ranks.at(shares.slowest_rank);
  std::vector<double> works;
  std::vector<double> inputs;
  for (const auto& [rank, summary] : run.ranks) {
    if (rank == shares.slowest_rank || summary.spans.total("steps") == 0) continue;
    works.push_back(per_step(summary, own_work(summary)));
    inputs.push_back(per_step(summary, summary.spans.total("input")));
  }
  const double work = per_step(slowest, own_work(slowest)) - median(works);
  const double input = per_step(slowest, slowest.spans.total("input")) - median(inputs);
  shares.late_input = std::clamp(input, 0.0, work);
  if (shares.late_input > work / 2) shares.late_input_rank = shares.slowest_rank;
}

// Splits rank 0's waiting into network and straggler. All ranks leave an exchange together, so the
// rank with the shortest wait arrived last, and that wait is the network's. The ranks exchange
// their waits in every step.
void split_waiting(const RunSummary& run, double waited, const StepRecord& first_step,
                   TimeShares& shares) {
  shares.comparable = ranks_compare(run);
  if (shares.comparable) find_slowest(run, shares);
  shares.network = waited;
  if (run.ranks.size() < 2) return;
  const RollupTable& mine = run.ranks.at(0).spans;
  const double first_wait = first_step.communication ? first_step.communication->min_wait : 0;
  shares.network = std::clamp(mine.total("min_wait") - first_wait, 0.0, waited);
  shares.straggler = waited - shares.network;
  const bool slow = shares.slowest_ratio >= kSlowRankInRun;
  find_late_input(run, shares);
  const double late_input = shares.late_input * mine.total("steps");
  if (slow && shares.slowest_rank == 0) {
    // Rank 0 did not wait itself: the others waited for its compute or its input.
    std::vector<double> waits;
    for (const auto& [rank, summary] : run.ranks) {
      if (rank == 0 || summary.spans.total("steps") == 0) continue;
      const double both = std::min(1.0, mine.total("steps") / summary.spans.total("steps"));
      waits.push_back(summary.spans.total("communication") * both);
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
  if (slow && shares.slowest_rank == shares.descheduled_rank) {
    const double late = std::min(shares.network, shares.descheduled_share * mine.total("seconds"));
    shares.network -= late;
    shares.straggler += late;
  }
}

// Time of exchanges beyond the need of the link for their bytes, while all cores were busy. Waiting
// for a link leaves a core idle; where none is idle, the wait is for a core.
void split_contention(const RunSummary& run, TimeShares& shares) {
  const auto first = run.ranks.find(0);
  if (run.predictions.empty() || first == run.ranks.end()) return;
  const PredictionRecord& link = run.predictions.back();
  const RollupTable& machine = first->second.machine;
  const double sampled = machine.total("seconds");
  if (link.bandwidth <= 0 || sampled <= 0 || machine.total("cpu") / sampled < kBusyCoresPercent)
    return;
  const RollupTable& mine = first->second.spans;
  // Without the latency: measured on busy cores, it is mostly waiting for a core.
  const double needed = mine.total("sent") / link.bandwidth;
  shares.contention = std::max(0.0, shares.network - kLinkTimeMargin * needed);
  shares.network -= shares.contention;
}

bool same_machines(const RunSummary& run) {
  double fastest = 0;
  for (const StartRecord& start : run.starts) fastest = std::max(fastest, start.capacity);
  return same_workers(run) &&
         std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
           return start.capacity >= kSameSpeed * fastest;
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
               shares.all_compute();
  e.capacity = start.capacity;
  return e;
}

TimeShares time_shares(const RunSummary& run) {
  TimeShares shares;
  const auto first = run.ranks.find(0);
  if (first == run.ranks.end()) return shares;
  const RollupTable& t = first->second.spans;
  // The first step is not counted: it also allocates memory and chooses algorithms.
  const StepRecord first_step = run.first_step.value_or(StepRecord{});
  auto spent = [&](const char* name) {
    return std::max(0.0, t.total(name) - span_of(first_step, name));
  };
  shares.input = spent("input");
  shares.compute = spent("forward") + spent("loss") + spent("backward") + spent("optimizer");
  shares.compression = spent("compression");
  split_waiting(run, spent("communication"), first_step, shares);
  split_contention(run, shares);
  for (const EvaluationRecord& e : run.evaluations) shares.evaluation += e.seconds;
  for (const CheckpointRecord& c : run.checkpoints) shares.checkpoint += c.stall_seconds;
  const double steps = std::max(0.0, t.total("seconds") - first_step.seconds);
  shares.other = std::max(0.0, steps - shares.input - shares.compute - shares.compression -
                                   shares.network - shares.straggler - shares.contention);
  shares.total = steps + shares.evaluation + shares.checkpoint;
  return shares;
}

}  // namespace reigen
