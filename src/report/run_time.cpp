#include "report/run_time.h"

#include <algorithm>

#include "base/format.h"

namespace reigen {

RunTime run_time(const RunSummary& run) {
  RunTime time;
  time.measured = run.steps.total("seconds");
  for (const auto& e : run.evaluations) time.measured += e.seconds;
  for (const auto& c : run.checkpoints) time.measured += c.stall_seconds;
  for (const auto& s : run.starts) {
    time.start_up += s.setup_seconds;
    time.data += s.data_seconds;
  }
  // What the clock on the wall cannot get wrong.
  const double least = time.measured + time.start_up;
  bool told = !run.attempts.empty();  // by every attempt itself
  for (const AttemptTime& a : run.attempts) {
    told = told && a.seconds > 0;
    // Time stamps are worth nothing once the clock was set.
    if (a.seconds <= 0 && run.clock_jumps > 0) {
      time.wall = least;
      return time;
    }
    time.wall += a.seconds > 0 ? a.seconds : std::max(0.0, a.last - a.first);
  }
  if (!told) time.wall = std::max(time.wall, least);
  return time;
}

std::string start_up_told(const RunTime& time) {
  std::string text =
      format("start-up took {}, {:.0f}% of the {} of the run", human_seconds(time.start_up),
             100 * time.start_up / time.wall, human_seconds(time.wall));
  if (time.data >= time.start_up / 2) {
    text += format("; {} of it went into opening and verifying data", human_seconds(time.data));
  }
  return text;
}

std::string start_up_advice(const RunTime& time) {
  if (time.data >= time.start_up / 2) {
    return "for the start-up, a faster disk for the data, or a copy on the host itself: all of it "
           "is read and verified before the first step";
  }
  return "start-up is paid once in each attempt: a longer one spends less of its time on it";
}

}  // namespace reigen
