#include "report/verdict/run_time.h"

#include "report/verdict/thresholds.h"

namespace reigen {

bool RunTime::slow_start() const { return wall > 0 && start_up >= kSlowStartShare * wall; }

bool RunTime::slow_data() const { return data >= start_up / 2; }

RunTime run_time(const RunSummary& run) {
  RunTime time;
  time.measured = run.steps.total("seconds");
  for (const auto& e : run.evaluations) time.measured += e.seconds;
  for (const auto& c : run.checkpoints) time.measured += c.stall_seconds;
  for (const auto& s : run.starts) {
    time.start_up += s.setup_seconds;
    time.data += s.data_seconds;
  }
  // Durations are measured with a monotonic clock, unlike time stamps.
  const double least = time.measured + time.start_up;
  bool all_ended = !run.attempts.empty();
  for (const AttemptTime& a : run.attempts) {
    const bool ended = a.seconds > 0;  // with a record of its duration
    all_ended = all_ended && ended;
    // Time stamps are useless once the clock was set.
    if (!ended && run.clock_jumps > 0) {
      time.wall = least;
      return time;
    }
    time.wall += ended ? a.seconds : std::max(0.0, a.last - a.first);
  }
  if (!all_ended) time.wall = std::max(time.wall, least);
  return time;
}

}  // namespace reigen
