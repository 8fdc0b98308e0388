// When something is due: an evaluation, a checkpoint, the end of the run.
//
// Every question is a pure function of the options, the counters and the requests to stop, so all
// ranks answer alike.
#pragma once

#include <cstdint>
#include <optional>

#include "config/train_options.h"
#include "data/dataset.h"
#include "optim/state.h"

namespace reigen {

enum class StopReason { kNone, kMaxSteps, kMaxEpochs, kMaxTime, kPatience, kDecayed, kSignal };
const char* text_of(StopReason reason);  // as in the measurement log

// Requests to stop, the same on all ranks.
struct StopRequests {
  bool interrupted = false;  // a signal
  bool time_over = false;    // --max-time
};

class RunLimits {
 public:
  // All must outlive it. `validated`: whether there is a validation set. A decay that was begun
  // decides the last step instead of --max-steps and eval.patience.
  RunLimits(const TrainOptions& options, const Dataset& train, bool validated, const Decay& decay)
      : options_(options), train_(train), validated_(validated), decay_(decay) {}

  // Epochs up to a position in the data: 1.25 is a quarter into the second.
  double epochs(const Cursor& cursor) const;

  // Whether anything but one more step may be due after step `step`, the last one that was started,
  // whose batch ends at `cursor`. Steps under way are finished before the questions below.
  bool boundary(uint64_t step, const Cursor& cursor, const StopRequests& requests) const;

  // Whether the validation score has not improved for eval.patience evaluations. A schedule of kind
  // wsd without --max-steps then begins its decay.
  bool stalled(const Counters& counters) const;
  bool decay_due(const Counters& counters) const;

  StopReason reason_to_stop(const Counters& counters, const StopRequests& requests) const;

  // At every multiple of eval.every and at the end of a run, but not on a signal, and not after a
  // skipped step.
  bool evaluation_due(const Counters& counters, StopReason reason) const;

  // At every multiple of checkpoint.every (unless the step was skipped: the checkpoint before it is
  // worth more), at the end of a run, and after an evaluation, so that the checkpoint records its
  // scores.
  struct LastCheckpoint {
    std::optional<uint64_t> step;
    bool evaluated_since = false;
  };
  bool checkpoint_due(const Counters& counters, StopReason reason,
                      const LastCheckpoint& last) const;

 private:
  bool at_last_step(uint64_t step) const;

  const TrainOptions& options_;
  const Dataset& train_;
  bool validated_;
  const Decay& decay_;
};

}  // namespace reigen
