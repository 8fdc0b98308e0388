#include "report/verdict/machine/run_time.h"

#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

// Times of an attempt without an end record are those of its records that remain, and of the steps
// that were removed because the next attempt repeats them.
struct AttemptLength {
  double seconds = 0;
  double lost = 0;
};

AttemptLength length_of(const RunSummary& run, size_t attempt) {
  const AttemptTime& a = run.attempts[attempt];
  AttemptLength length;
  if (run.starts.size() == run.attempts.size() && attempt + 1 < run.starts.size()) {
    length.lost = run.starts[attempt + 1].lost_seconds;
  }
  length.seconds = a.seconds > 0 ? a.seconds : std::max(0.0, a.last - a.first) + length.lost;
  return length;
}

// Seconds after the last step, without evaluations and checkpoints.
double ending_of(const RunSummary& run, double ended) {
  if (!run.last_step || run.clock_jumps > 0) return 0;
  double seconds = ended - run.last_step->time;
  for (const auto& e : run.evaluations) {
    if (e.step >= run.last_step->step) seconds -= e.seconds;
  }
  for (const auto& c : run.checkpoints) {
    if (c.step >= run.last_step->step) seconds -= c.stall_seconds;
  }
  return std::max(0.0, seconds);
}

}  // namespace

bool RunTime::slow_start() const { return wall > 0 && start_up >= kSlowStartShare * wall; }

bool RunTime::much_other() const {
  return wall >= kMuchOtherFrom && other() >= kSlowStartShare * wall;
}

double RunTime::between_steps() const {
  if (wall < kMuchOtherFrom) return 0;
  return std::max(0.0, other() - ending - kEndOfAttempt * static_cast<double>(attempts));
}

bool RunTime::slow_data() const { return data >= start_up / 2; }

RunTime run_time(const RunSummary& run) {
  RunTime time;
  time.steps = run.steps.total("seconds");
  for (const auto& e : run.evaluations) time.evaluations += e.seconds;
  for (const auto& c : run.checkpoints) time.stalls += c.stall_seconds;
  for (const auto& s : run.starts) {
    time.start_up += s.setup_seconds;
    time.data += s.data_seconds;
    time.repeated += s.lost_seconds;
    time.repeated_steps += s.lost_steps;
  }
  const double parts = time.measured() + time.start_up + time.repeated;
  double ended_before = -1;  // time stamp
  for (size_t i = 0; i < run.attempts.size(); ++i) {
    const AttemptLength length = length_of(run, i);
    const double first = run.attempts[i].first;
    // Time stamps are useless once the clock was set; durations come from a monotonic clock.
    if (ended_before > 0 && run.clock_jumps == 0) {
      time.paused += std::max(0.0, first - ended_before);
    }
    ended_before = first + length.seconds;
    time.wall += length.seconds;
  }
  const bool stamps = std::any_of(run.attempts.begin(), run.attempts.end(),
                                  [](const AttemptTime& a) { return a.seconds == 0; });
  if (stamps && run.clock_jumps > 0) time.wall = parts;
  time.wall = std::max(time.wall, parts);
  time.attempts = run.attempts.size();
  time.ending = std::min(time.other(), ending_of(run, ended_before));
  return time;
}

}  // namespace reigen
