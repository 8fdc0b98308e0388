// A run along its steps: where the time of a step changed for good, from what to what, and which
// cause explains it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "report/verdict/machine/bottleneck.h"

namespace reigen {

// Steps between two changes.
struct Stretch {
  StepInterval steps;
  double begin = 0;         // seconds after the start of the run; -1 where the clock was set
  double seconds = 0;       // of its steps
  double step_seconds = 0;  // for the mean tokens of the run's steps
  double tokens_per_second = 0;
  TimeShares shares;
  std::map<int, WorkerUse> uses;
};

struct Change {
  double step = 0;    // first of the new level
  double begin = 0;   // seconds after the start of the run; -1 where the clock was set
  double before = 0;  // seconds of a step
  double after = 0;
  bool slower() const { return after > before; }
  // The part of a step that changed most, in seconds, and its share of the difference.
  Cause cause = Cause::kUnknown;
  double part_before = 0;
  double part_after = 0;
  double part_share = 0;
  int rank = -1;  // whose work changed, of a straggler
  SlowReason reason = SlowReason::kUnknown;
  WorkerUse use_before;  // of that rank, or of rank 0
  WorkerUse use_after;
  uint64_t attempt = 0;  // that began here; 0 for none
  double lasted = 0;     // seconds of the steps since, to the next change or the end
};

// The work of a rank took longer, or less long, from a step on, whatever that did to the steps.
struct RankChange {
  int rank = 0;
  double step = 0;    // first of the new level, about
  double before = 0;  // seconds of its own work in a step
  double after = 0;
};

// The gradient norm rose at once, and stayed there. Rises of the loss:
// report/verdict/learning/loss_rises.h.
struct NormRise {
  double step = 0;
  double before = 0;  // medians of some values on each side
  double after = 0;
};

struct RunCourse {
  std::vector<Stretch> stretches;        // at least one where the run has steps
  std::vector<Change> changes;           // between them
  std::vector<RankChange> rank_changes;  // of the own work of each rank
  std::vector<NormRise> norm_rises;
};
RunCourse run_course(const RunSummary& run);

// The change into the last stretch, where it made steps clearly slower and has lasted: worth a
// warning while the run trains. Null otherwise.
const Change* slowed_lately(const RunCourse& course);

}  // namespace reigen
