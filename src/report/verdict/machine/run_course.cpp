#include "report/verdict/machine/run_course.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/statistics.h"
#include "report/verdict/machine/change_points.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

// Blocks divide the time of a run, and its steps, into at least this many where that is possible: a
// phase that is short in either still has several.
constexpr double kBlocks = 120;
// Scheduling alone makes shorter times differ.
constexpr double kShortestBlock = 0.1;  // seconds
// Attempts begin with a change when one starts within this share of the run's steps.
constexpr double kNearAttempt = 0.02;

// Consecutive steps.
struct Block {
  double first = 0;
  double steps = 0;
  double seconds = 0;
  double tokens = 0;
  double begin = 0;  // time stamp of the end of the step before
  double of_token() const { return seconds / tokens; }
};

std::vector<Block> blocks_of(const RunSummary& run) {
  const RollupTable& t = run.steps;
  const size_t seconds = t.column("seconds");
  const size_t tokens = t.column("target_tokens");
  const size_t time = t.column("time");
  const size_t steps = t.column("steps");
  const double longest = t.total("seconds") / kBlocks;
  const double most_steps = t.total("steps") / kBlocks;
  auto complete = [&](const Block& b) {
    return b.seconds >= kShortestBlock && (b.seconds >= longest || b.steps >= most_steps);
  };
  std::vector<Block> blocks;
  double before = 0;
  for (const auto& [number, row] : t.rows()) {
    const bool skipped = before == 0 && t.rows().size() > 1;  // the first step also warms up
    if (!skipped && row[seconds] > 0 && row[tokens] > 0) {
      if (blocks.empty() || complete(blocks.back())) {
        const auto first = static_cast<double>(number * t.width());
        blocks.push_back({.first = first, .begin = before});
      }
      blocks.back().steps += row[steps];
      blocks.back().seconds += row[seconds];
      blocks.back().tokens += row[tokens];
    }
    before = row[time];
  }
  if (blocks.size() > 1 && blocks.back().seconds < kShortestBlock / 2) blocks.pop_back();
  return blocks;
}

Stretch stretch_of(const RunSummary& run, const StepInterval& steps, double mean_tokens) {
  Stretch s{.steps = steps};
  s.seconds = run.steps.total("seconds", steps);
  const double tokens = run.steps.total("target_tokens", steps);
  s.tokens_per_second = s.seconds > 0 ? tokens / s.seconds : 0;
  s.step_seconds = tokens > 0 ? s.seconds / tokens * mean_tokens : 0;
  s.uses = worker_use(run, steps);
  s.shares = time_shares(run, steps, s.uses);
  return s;
}

double own_work_of(const RunSummary& run, int rank, const StepInterval& steps) {
  const RollupTable& t = run.ranks.at(rank).spans;
  const double count = std::max(1.0, t.total("steps", steps));
  return (t.total("seconds", steps) - t.total("communication", steps)) / count;
}

// The rank whose own work grew most, or shrank most.
int changed_rank(const RunSummary& run, const Stretch& before, const Stretch& after, bool slower) {
  int rank = -1;
  double most = 0;
  for (const auto& [each, summary] : run.ranks) {
    double grew = own_work_of(run, each, after.steps) - own_work_of(run, each, before.steps);
    if (!slower) grew = -grew;
    if (grew <= most) continue;
    most = grew;
    rank = each;
  }
  return rank;
}

struct Part {
  Cause cause;
  double before;
  double after;
};

// Parts of a step's time in seconds, in a step of the run's mean tokens.
std::array<Part, 18> parts_of(const RunSummary& run, const Stretch& before, const Stretch& after) {
  const Cause exchange = crosses_network(run) ? Cause::kNetwork : Cause::kLocalExchange;
  auto part = [&](Cause cause, double TimeShares::*member) {
    auto per_step = [&](const Stretch& s) {
      return s.seconds > 0 ? s.shares.*member / s.seconds * s.step_seconds : 0;
    };
    return Part{cause, per_step(before), per_step(after)};
  };
  return {part(Cause::kCompute, &TimeShares::compute),
          part(Cause::kInput, &TimeShares::input),
          part(exchange, &TimeShares::network),
          part(Cause::kStraggler, &TimeShares::straggler),
          part(Cause::kLateInTurn, &TimeShares::late_in_turn),
          part(Cause::kInterference, &TimeShares::interference),
          part(Cause::kSharedCores, &TimeShares::shared_cores),
          part(Cause::kQuota, &TimeShares::quota),
          part(Cause::kStopped, &TimeShares::stopped),
          part(Cause::kSteal, &TimeShares::steal),
          part(Cause::kMemory, &TimeShares::memory),
          part(Cause::kGpuShared, &TimeShares::gpu_shared),
          part(Cause::kGpuSlowed, &TimeShares::gpu_slowed),
          part(Cause::kContention, &TimeShares::contention),
          part(Cause::kCompression, &TimeShares::compression),
          part(Cause::kCheckpoint, &TimeShares::writing),
          part(Cause::kLogging, &TimeShares::logging),
          part(Cause::kOther, &TimeShares::other)};
}

// The mean clock of the cores of a rank's host; 0 where it is hidden.
double clock_of(const RunSummary& run, int rank, const StepInterval& steps) {
  const RankSummary* host = host_of(run, rank);
  if (host == nullptr) return 0;
  const double known = host->machine.total("clock_known", steps);
  return known > 0 ? host->machine.total("clock", steps) / known : 0;
}

SlowReason reason_of_change(const WorkerUse& before, const WorkerUse& after, double clock_before,
                            double clock_after) {
  if (!before.known || !after.known) return SlowReason::kUnknown;
  if (after.lost_to_quota - before.lost_to_quota >= kLostShare) return SlowReason::kQuota;
  if (after.lost_to_hypervisor - before.lost_to_hypervisor >= kLostShare) return SlowReason::kSteal;
  const double others = after.lost_to_others - before.lost_to_others;
  const double workers = after.lost_to_workers - before.lost_to_workers;
  if (others >= kLostShare && others >= workers) return SlowReason::kOthers;
  if (workers >= kLostShare) return SlowReason::kSharedCores;
  if (after.cores < before.cores) return SlowReason::kFewerCores;
  if (after.short_of_memory()) return SlowReason::kMemory;
  if (clock_after > 0 && clock_after < kLowerClock * clock_before) return SlowReason::kClock;
  return after.denied_known ? SlowReason::kHardware : SlowReason::kUnknown;
}

// On a GPU, the cores of the host say little about the work of a rank.
SlowReason gpu_reason(const RunSummary& run, int rank, const StepInterval& before,
                      const StepInterval& after) {
  const GpuUse earlier = gpu_use(run, rank, before);
  const GpuUse later = gpu_use(run, rank, after);
  if (later.other_use_known ? later.other_use - earlier.other_use >= kLostShare
                            : later.others - earlier.others >= kGpuOthers) {
    return SlowReason::kGpuOthers;
  }
  if (later.clock_known ? later.lost_clock - earlier.lost_clock >= kLostShare
                        : later.slowed - earlier.slowed >= kGpuSlowedShare) {
    return SlowReason::kGpuSlowed;
  }
  return SlowReason::kUnknown;
}

void explain(const RunSummary& run, const Stretch& before, const Stretch& after, Change& change) {
  const double difference = change.after - change.before;
  for (const Part& part : parts_of(run, before, after)) {
    const double share = (part.after - part.before) / difference;
    if (share <= change.part_share) continue;
    change.cause = part.cause;
    change.part_share = share;
    change.part_before = part.before;
    change.part_after = part.after;
  }
  change.part_share = std::min(1.0, change.part_share);
  change.rank =
      change.cause == Cause::kStraggler ? changed_rank(run, before, after, change.slower()) : -1;
  const int rank = std::max(0, change.rank);
  const auto earlier = before.uses.find(rank);
  const auto later = after.uses.find(rank);
  if (earlier != before.uses.end()) change.use_before = earlier->second;
  if (later != after.uses.end()) change.use_after = later->second;
  auto reason_between = [&](const Stretch& fast, const Stretch& slow) {
    const bool first = &fast == &before;
    return reason_of_change(first ? change.use_before : change.use_after,
                            first ? change.use_after : change.use_before,
                            clock_of(run, rank, fast.steps), clock_of(run, rank, slow.steps));
  };
  const bool quota =
      change.rank >= 0 && after.shares.descheduled && after.shares.descheduled_rank == change.rank;
  change.reason = quota             ? SlowReason::kQuota
                  : change.slower() ? reason_between(before, after)
                                    : reason_between(after, before);
  if (!run.starts.empty() && run.starts.back().device_kind == "gpu") {
    change.reason = change.slower() ? gpu_reason(run, rank, before.steps, after.steps)
                                    : gpu_reason(run, rank, after.steps, before.steps);
  }
  // The part that makes up the difference names its reason, too.
  if (change.cause == Cause::kInterference) change.reason = SlowReason::kOthers;
  if (change.cause == Cause::kSharedCores) change.reason = SlowReason::kSharedCores;
  if (change.cause == Cause::kQuota) change.reason = SlowReason::kQuota;
  if (change.cause == Cause::kSteal) change.reason = SlowReason::kSteal;
  if (change.cause == Cause::kMemory) change.reason = SlowReason::kMemory;
  if (change.cause == Cause::kGpuShared) change.reason = SlowReason::kGpuOthers;
  if (change.cause == Cause::kGpuSlowed) change.reason = SlowReason::kGpuSlowed;
  for (const StartRecord& start : run.starts) {
    const double near = kNearAttempt * run.steps.total("steps") + 1;
    if (start.attempt > 1 && std::abs(static_cast<double>(start.step) + 1 - change.step) <= near) {
      change.attempt = start.attempt;
    }
  }
}

std::vector<double> values_of(const Points& points) {
  std::vector<double> values;
  for (const auto& point : points) values.push_back(point.second);
  return values;
}

double median_of_range(const std::vector<double>& values, size_t first, size_t end) {
  return median({values.begin() + static_cast<std::ptrdiff_t>(first),
                 values.begin() + static_cast<std::ptrdiff_t>(std::min(end, values.size()))});
}

// The step of the first value of a new level, about: the end of the row before.
double step_at(const Points& points, size_t index) { return points[index - 1].first + 1; }

// Means of at most kBlocks groups of rows. Tables have hundreds of rows, which are noisy.
Points joined(Points points) {
  const size_t each =
      (points.size() + static_cast<size_t>(kBlocks) - 1) / static_cast<size_t>(kBlocks);
  if (each < 2) return points;
  Points few;
  for (size_t i = 0; i < points.size(); i += each) {
    const size_t end = std::min(points.size(), i + each);
    double sum = 0;
    for (size_t j = i; j < end; ++j) sum += points[j].second;
    few.emplace_back(points[end - 1].first, sum / static_cast<double>(end - i));
  }
  return few;
}

Points own_work_of(const RankSummary& summary) {
  Points works = summary.spans.ratio("seconds", "steps");
  const Points waits = summary.spans.ratio("communication", "steps");
  for (size_t i = 0; i < works.size(); ++i) {
    works[i].second = std::max(1e-9, works[i].second - waits[i].second);
  }
  if (!works.empty()) works.erase(works.begin());  // the first step also warms up
  return joined(std::move(works));
}

void find_rank_changes(const RunSummary& run, RunCourse& course) {
  for (const auto& [rank, summary] : run.ranks) {
    const Points works = own_work_of(summary);
    const std::vector<double> values = values_of(works);
    const std::vector<size_t> points = change_points(values);
    for (size_t i = 0; i < points.size(); ++i) {
      const size_t first = i == 0 ? 0 : points[i - 1];
      const size_t end = i + 1 < points.size() ? points[i + 1] : values.size();
      course.rank_changes.push_back({rank, step_at(works, points[i]),
                                     median_of_range(values, first, points[i]),
                                     median_of_range(values, points[i], end)});
    }
  }
}

// The norm drifts along a run, so that it has no levels: a rise counts that happens at once, with
// all values of a stretch above all those before it.
void find_norm_rises(const RunSummary& run, RunCourse& course) {
  const Points points = joined(run.steps.ratio("norm", "finite"));
  std::vector<double> values = values_of(points);
  for (double& value : values) value = std::max(1e-9, value);
  size_t last = 0;
  double widest = 0;  // gap of the rise at `last`, which its neighbours also see
  for (size_t at = kShortestLevel; at + kShortestLevel <= values.size(); ++at) {
    const auto here = values.begin() + static_cast<std::ptrdiff_t>(at);
    const auto length = static_cast<std::ptrdiff_t>(kShortestLevel);
    const double gap =
        *std::min_element(here, here + length) / *std::max_element(here - length, here);
    const double before = median_of_range(values, at - kShortestLevel, at);
    const double after = median_of_range(values, at, at + kShortestLevel);
    if (gap <= 1 || after < kNormRise * before) continue;
    const bool same = widest > 0 && at < last + kShortestLevel;
    last = at;
    if (same && gap <= widest) continue;
    if (same) course.norm_rises.pop_back();
    widest = gap;
    course.norm_rises.push_back({step_at(points, at), before, after});
  }
}

}  // namespace

RunCourse run_course(const RunSummary& run) {
  RunCourse course;
  const double steps = run.steps.total("steps");
  if (steps == 0 || !run.first_step || !run.last_step) return course;
  const std::vector<Block> blocks = blocks_of(run);
  std::vector<double> values;
  values.reserve(blocks.size());
  for (const Block& block : blocks) values.push_back(block.of_token());
  const std::vector<size_t> points = change_points(values);
  const double mean_tokens = run.steps.total("target_tokens") / steps;
  const double start = run.attempts.empty() || run.clock_jumps > 0 ? 0 : run.attempts[0].first;
  double first = static_cast<double>(run.first_step->step);
  for (size_t i = 0; i <= points.size(); ++i) {
    const bool last = i == points.size();
    const double end =
        last ? static_cast<double>(run.last_step->step) : blocks[points[i]].first - 1;
    course.stretches.push_back(stretch_of(run, {first, end}, mean_tokens));
    const double begin = i == 0 ? start : blocks[points[i - 1]].begin;
    course.stretches.back().begin = start > 0 ? begin - start : -1;
    first = end + 1;
  }
  for (size_t i = 1; i < course.stretches.size(); ++i) {
    const Stretch& before = course.stretches[i - 1];
    const Stretch& after = course.stretches[i];
    Change change{.step = after.steps.first, .begin = after.begin};
    change.before = before.step_seconds;
    change.after = after.step_seconds;
    change.lasted = after.seconds;
    explain(run, before, after, change);
    course.changes.push_back(std::move(change));
  }
  if (run.ranks.size() > 1) find_rank_changes(run, course);
  find_norm_rises(run, course);
  return course;
}

const Change* slowed_lately(const RunCourse& course) {
  if (course.changes.empty()) return nullptr;
  const Change& last = course.changes.back();
  const bool clear = last.after >= kWarnedChange * last.before && last.lasted >= kWarnedSeconds;
  return clear && last.attempt == 0 ? &last : nullptr;
}

}  // namespace reigen
