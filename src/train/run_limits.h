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

// Requests to end the run or to save it, the same on all ranks.
struct StopRequests {
  bool interrupted = false;  // a signal
  bool time_over = false;    // --max-time
  uint64_t decay_steps = 0;  // --decay-now; 0: not asked for
  bool save = false;         // --checkpoint.minutes
  bool change = false;       // workers are to be added, or leave
};

// A decay that begins after the present step.
struct DueDecay {
  uint64_t steps = 0;      // 0: none
  const char* cause = "";  // as in the measurement log
};

class RunLimits {
 public:
  // All must outlive it. `validated`: whether there is a validation set. A decay that was begun
  // decides the last step instead of --max-steps, --max-epochs, --max-time and eval.patience.
  RunLimits(const TrainOptions& options, const Dataset& train, bool validated, const Decay& decay)
      : options_(options), train_(train), validated_(validated), decay_(decay) {}

  // Epochs up to a position in the data: 1.25 is a quarter into the second.
  double epochs(const Cursor& cursor) const;

  // Whether anything but one more step may be due after step `step`, the last one that was started,
  // whose batch ends at `cursor`. Steps under way are finished before the questions below.
  bool boundary(uint64_t step, const Cursor& cursor, const StopRequests& requests) const;

  // A decay of the requested length, or the one of wsd after a validation score that has not
  // improved for eval.patience evaluations. Not after a skipped step, because a checkpoint follows,
  // nor before the first step.
  DueDecay decay_due(const Counters& counters, uint64_t requested) const;

  StopReason reason_to_stop(const Counters& counters, const StopRequests& requests) const;

  // At every multiple of eval.every and at the end of a run, but not on a signal, and not after a
  // skipped step.
  bool evaluation_due(const Counters& counters, StopReason reason) const;

  // At every multiple of checkpoint.every and after checkpoint.minutes (unless the step was
  // skipped: the checkpoint before it is worth more), at the end of a run, and where the checkpoint
  // records something new: the scores of an evaluation, the begin of a decay.
  struct LastCheckpoint {
    std::optional<uint64_t> step;
    bool changed_since = false;
  };
  bool checkpoint_due(const Counters& counters, StopReason reason, const LastCheckpoint& last,
                      bool save_requested = false) const;

 private:
  bool stalled(const Counters& counters) const;
  StopReason reached_limit(uint64_t step, const Cursor& cursor, bool time_over) const;

  const TrainOptions& options_;
  const Dataset& train_;
  bool validated_;
  const Decay& decay_;
};

}  // namespace reigen
