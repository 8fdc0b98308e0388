// Wall time of a run, and its split into start-up, measured time and the rest.
#pragma once

#include <algorithm>

#include "observe/record/run_summary.h"

namespace reigen {

// In seconds, over all attempts.
struct RunTime {
  double wall = 0;
  double measured = 0;  // steps, evaluations and checkpoint stalls
  double start_up = 0;  // before the first step
  double data = 0;      // of that, opening and verifying data, until all workers were done

  // Clamped: durations are stored in microseconds, and logs of version 0.1 do not count the stall
  // for the last checkpoint in the time of their attempt.
  double other() const { return std::max(0.0, wall - measured - start_up); }
  bool slow_start() const;  // start-up took kSlowStartShare of the wall time
  bool slow_data() const;   // data took at least half of the start-up
};

RunTime run_time(const RunSummary& run);

}  // namespace reigen
