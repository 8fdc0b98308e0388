// How long a run took by the clock on the wall, and how much of that before its first step.
#pragma once

#include <string>

#include "observe/record/run_summary.h"

namespace reigen {

// In seconds, over all attempts.
struct RunTime {
  double wall = 0;
  double measured = 0;  // steps, evaluations, and standing still for checkpoints
  double start_up = 0;  // before steps could begin
  double data = 0;      // of that, opening and verifying data, until all workers had
  double other() const { return wall - measured - start_up; }
  bool slow_start() const { return wall > 0 && start_up >= kSlowStart * wall; }

  static constexpr double kSlowStart = 0.15;  // of the wall time, to be told of
};

RunTime run_time(const RunSummary& run);

// "start-up took 40.0 s, 60% of the 1m 06s of the run; 38.0 s of it went into opening and verifying
// data"
std::string start_up_told(const RunTime& time);
std::string start_up_advice(const RunTime& time);

}  // namespace reigen
