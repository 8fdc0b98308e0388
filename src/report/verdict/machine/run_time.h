// Wall time of a run, and its split.
#pragma once

#include <algorithm>

#include "observe/record/run_summary.h"

namespace reigen {

// In seconds, over all attempts. The wall time is the sum of its parts: steps, evaluations, stalls,
// start-up, repeated and other.
struct RunTime {
  double wall = 0;
  double steps = 0;  // those in the log: each step once
  double evaluations = 0;
  double stalls = 0;    // for checkpoints
  double start_up = 0;  // before the first step of each attempt
  double data = 0;      // of that, opening and verifying data, until all workers were done
  double repeated = 0;  // steps, with their evaluations and stalls, that a stop made worthless
  uint64_t repeated_steps = 0;
  size_t attempts = 0;
  double paused = 0;  // between attempts; not part of the wall time
  double ending = 0;  // of other(): after the last step of the last attempt

  double measured() const { return steps + evaluations + stalls; }
  // Never negative: logs of version 0.1 do not count the stall for the last checkpoint in the time
  // of their attempt, which then counts as wall time.
  double other() const { return std::max(0.0, wall - measured() - start_up - repeated); }
  // Of other(), in a run that is long enough to judge. An attempt takes some seconds to end.
  double between_steps() const;
  bool slow_start() const;  // start-up took kSlowStartShare of the wall time
  bool much_other() const;  // the same of other(), in a run that took long enough to judge
  bool slow_data() const;   // data took at least half of the start-up
};

RunTime run_time(const RunSummary& run);

}  // namespace reigen
