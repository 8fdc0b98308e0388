// Recovery of an elastic job after the loss of a worker: the survivors form the next membership,
// settle the step under way (settlement.h), and make anew what depends on the workers
// (docs/design/elastic.md).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "observe/record/records.h"
#include "train/attempt_parts.h"
#include "train/run_limits.h"
#include "train/step/step_result.h"

namespace reigen {

// The parts of a worker's position that the loop owns.
struct LoopPosition {
  RunLimits::LastCheckpoint checkpoint;
  std::string forming;  // id of the membership in which the step under way began
};

struct Recovered {
  MembershipChangeRecord record;
  LoopPosition loop;
  // A decay that other ranks had begun.
  std::optional<Decay> adopted_decay;
  bool received_state = false;  // this worker was added
};

// Functions of the loop that a recovery calls.
struct LoopServices {
  // The membership is formed already: this process has just been added to a running job.
  bool formed = false;
  // Logs a step that this worker has committed now: in the run if it is the writer, else in
  // `recent`.
  std::function<void(const StepResult&)> log_step;
  // The last steps of a worker that is not the writer, which may become it.
  const std::deque<StepRecord>& recent;
  // The reasons of workers that have said that they leave, by number.
  const std::map<int, std::string>& leaving;
};

// On all members, after a collective operation failed with `why`, or after the same step, to add
// workers that wait. Afterwards all are at the same
// boundary: nothing is under way, and state and input are those after the settled step; rank 0
// writes the run. Pauses while too few workers are there; throws CommError when that takes too
// long.
Recovered recover(AttemptParts& parts, const CommStatus& why, const LoopPosition& loop,
                  const LoopServices& services);

}  // namespace reigen
