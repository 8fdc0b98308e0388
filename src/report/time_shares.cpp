// Where the time of a run went, and whom it was waited for.
#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "report/verdicts.h"

namespace reigen {
namespace {

constexpr double kBusyCores = 90;   // percent of all cores, for a wait to be for a processor
constexpr double kLinkMargin = 2;   // times what the link was measured to need
constexpr double kSameSteps = 0.9;  // of the most any rank took part in, to be compared with it
constexpr double kSameSpeed = 0.8;  // of the fastest attempt's capacity, to be the same machines

double span_of(const StepRecord& record, const char* name) {
  for (const auto& [span, seconds] : record.spans) {
    if (span == name) return seconds;
  }
  return 0;
}

// What a rank did itself, waiting for nobody.
double own_work(const RankFold& rank) {
  const RollupTable& t = rank.spans;
  return t.total("seconds") - t.total("communication");
}

bool same_workers(const RunSummary& run) {
  return std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
    return start.workers == run.starts[0].workers;
  });
}

// A run may be continued with another number of workers, and steps of other workers are others. Who
// is only behind with telling of the same ones can be compared.
bool ranks_compare(const RunSummary& run) {
  if (!run.starts.empty() && same_workers(run)) return true;
  double least = INFINITY;
  double most = 0;
  for (const auto& [rank, fold] : run.ranks) {
    least = std::min(least, fold.spans.total("steps"));
    most = std::max(most, fold.spans.total("steps"));
  }
  return least >= kSameSteps * most;
}

void find_slowest(const RunSummary& run, TimeShares& shares) {
  std::vector<double> works;
  std::vector<double> held;
  double slowest = -1;
  for (const auto& [rank, fold] : run.ranks) {
    const double steps = fold.spans.total("steps");
    if (steps == 0) continue;
    works.push_back(own_work(fold) / steps);
    held.push_back(fold.spans.total("descheduled_seconds") /
                   std::max(1e-9, fold.spans.total("seconds")));
    if (works.back() > slowest) {
      slowest = works.back();
      shares.slowest_rank = rank;
    }
    if (shares.held_rank < 0 || held.back() > shares.held_share) {
      shares.held_rank = rank;
      shares.held_share = held.back();
    }
  }
  if (works.size() < 2) return;
  works.erase(std::max_element(works.begin(), works.end()));
  shares.slowest_ratio = slowest / std::max(1e-9, median(works));
  held.erase(std::max_element(held.begin(), held.end()));
  // Where all are held alike (one container's quota for all) none is the straggler.
  if (shares.held_share < kHeld + 2 * median(held)) return;
  shares.slowest_rank = shares.held_rank;
  shares.slowest_ratio = std::max(shares.slowest_ratio, kSlower);
  shares.held = true;
}

double each_step(const RankFold& rank, double seconds) {
  return seconds / std::max(1.0, rank.spans.total("steps"));
}

// The slowest rank may be late because its input is. Then what the others waited for is a disk, and
// no processor. Who is not let run reads late too, but not because of a disk.
void find_late_input(const RunSummary& run, TimeShares& shares) {
  if (shares.slowest_ratio < kSlower || shares.held) return;
  const RankFold& slowest = run.ranks.at(shares.slowest_rank);
  std::vector<double> works;
  std::vector<double> inputs;
  for (const auto& [rank, fold] : run.ranks) {
    if (rank == shares.slowest_rank || fold.spans.total("steps") == 0) continue;
    works.push_back(each_step(fold, own_work(fold)));
    inputs.push_back(each_step(fold, fold.spans.total("input")));
  }
  const double work = each_step(slowest, own_work(slowest)) - median(works);
  const double input = each_step(slowest, slowest.spans.total("input")) - median(inputs);
  shares.input_late = std::clamp(input, 0.0, work);
  if (shares.input_late > work / 2) shares.input_rank = shares.slowest_rank;
}

// Rank 0 waited for the network and for others. How much for whom the ranks told each other in
// every step: all leave an exchange together, so who waited least came last.
void split_waiting(const RunSummary& run, double waited, const StepRecord& warm,
                   TimeShares& shares) {
  shares.comparable = ranks_compare(run);
  if (shares.comparable) find_slowest(run, shares);
  shares.network = waited;
  if (run.ranks.size() < 2) return;
  const RollupTable& mine = run.ranks.at(0).spans;
  const double warm_least = warm.communication ? warm.communication->min_wait : 0;
  shares.network = std::clamp(mine.total("min_wait") - warm_least, 0.0, waited);
  shares.straggler = waited - shares.network;
  const bool slow = shares.slowest_ratio >= kSlower;
  find_late_input(run, shares);
  const double late_input = shares.input_late * mine.total("steps");
  if (slow && shares.slowest_rank == 0) {
    // It did not wait; what the others waited for it is work of its own, or its input.
    std::vector<double> waits;
    for (const auto& [rank, fold] : run.ranks) {
      if (rank == 0 || fold.spans.total("steps") == 0) continue;
      const double both = std::min(1.0, mine.total("steps") / fold.spans.total("steps"));
      waits.push_back(fold.spans.total("communication") * both);
    }
    shares.awaited = std::clamp(median(waits) - waited - late_input, 0.0, shares.compute);
    shares.compute -= shares.awaited;
    shares.straggler += shares.awaited;
  } else {
    const double late = std::min(shares.straggler, late_input);
    shares.straggler -= late;
    shares.input += late;
  }
  // A worker that is not let run is late also within an exchange, and then everybody waits.
  if (slow && shares.slowest_rank == shares.held_rank) {
    const double late = std::min(shares.network, shares.held_share * mine.total("seconds"));
    shares.network -= late;
    shares.straggler += late;
  }
}

// What exchanges took beyond what the link needs for their bytes, while all cores were busy. Who
// waits for a link leaves a core idle; where none is, the wait is for a processor.
void tell_contention(const RunSummary& run, TimeShares& shares) {
  const auto first = run.ranks.find(0);
  if (run.forecasts.empty() || first == run.ranks.end()) return;
  const ForecastRecord& link = run.forecasts.back();
  const RollupTable& machine = first->second.machine;
  const double sampled = machine.total("seconds");
  if (link.bandwidth <= 0 || sampled <= 0 || machine.total("cpu") / sampled < kBusyCores) return;
  const RollupTable& mine = first->second.spans;
  // Without its latency: measured on busy cores, that is mostly waiting for one.
  const double needed = mine.total("sent") / link.bandwidth;
  shares.contended = std::max(0.0, shares.network - kLinkMargin * needed);
  shares.network -= shares.contended;
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
  if (run.starts.empty() || shares.computing() <= 0 || !same_machines(run)) return e;
  const StartRecord& start = run.starts.back();
  const StepRecord warm = run.first_step.value_or(StepRecord{});
  const double source = run.steps.total("source_tokens") - static_cast<double>(warm.source_tokens);
  const double target = run.steps.total("target_tokens") - static_cast<double>(warm.target_tokens);
  e.achieved =
      (source * start.source_token_flops + target * start.target_token_flops) / shares.computing();
  e.capacity = start.capacity;
  return e;
}

TimeShares time_shares(const RunSummary& run) {
  TimeShares shares;
  const auto first = run.ranks.find(0);
  if (first == run.ranks.end()) return shares;
  const RollupTable& t = first->second.spans;
  const StepRecord warm = run.first_step.value_or(StepRecord{});  // pays for warming up
  auto spent = [&](const char* name) { return std::max(0.0, t.total(name) - span_of(warm, name)); };
  shares.input = spent("input");
  shares.compute = spent("forward") + spent("loss") + spent("backward") + spent("optimizer");
  shares.compression = spent("compression");
  split_waiting(run, spent("communication"), warm, shares);
  tell_contention(run, shares);
  for (const EvaluationRecord& e : run.evaluations) shares.evaluation += e.seconds;
  for (const CheckpointRecord& c : run.checkpoints) shares.checkpoint += c.stall_seconds;
  const double steps = std::max(0.0, t.total("seconds") - warm.seconds);
  shares.other = std::max(0.0, steps - shares.input - shares.compute - shares.compression -
                                   shares.network - shares.straggler - shares.contended);
  shares.total = steps + shares.evaluation + shares.checkpoint;
  return shares;
}

}  // namespace reigen
