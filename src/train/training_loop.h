// The training loop: evaluate if due, write a checkpoint if due, stop if it is time, else one step.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "train/attempt_parts.h"
#include "train/recovery.h"
#include "train/run_limits.h"
#include "train/workers/rank_logs.h"

namespace reigen {

// All ranks run it and do the same after the same step; rank 0 also writes the run directory.
class TrainingLoop {
 public:
  // The parts must outlive it.
  explicit TrainingLoop(AttemptParts& parts);

  // Returns at a limit of the run. Throws Interrupted after a signal, when the last checkpoint is
  // written, IoError after the run directory was moved, likewise, and DivergedError when the loss
  // is no longer finite.
  void run();
  // The same where this process has just been added to a running job, whose state it receives
  // first.
  void run_joined();

 private:
  // `begun`: by the other workers.
  StopReason train(bool begun);
  void agree_on_end();
  void score_starting_point();
  // Does what is due after the last step, then one step; the reason to stop, if there is one.
  StopReason advance();
  void step();
  StepRecord finish_step();
  void adapt_shares();
  void log_step(const StepResult& result, double seconds);
  // After a loss in an elastic job: all members continue from the same boundary.
  void recover(const CommStatus& why, bool formed = false);
  // For processes that ask to be added.
  void welcome_others() const;
  // In an elastic job: the members continue with the workers that wait to join.
  void add_workers();
  bool time_to_add() const;
  bool repeat_changes();
  void await_joiners(size_t count) const;
  // In an elastic job: the others continue without those that leave. True if this worker has left.
  bool part();
  bool time_to_part();
  bool is_to_leave() const;
  void save();
  void note_checkpoint();
  std::string preemption_notice();
  void finish(StopReason reason);

  // A decay that is due begins: the learning rate falls over the next steps, which end the run. On
  // all ranks after the same step, whose checkpoint records it.
  void begin_due_decay(uint64_t requested);
  uint64_t requested_decay() const;
  StopRequests requests() const;
  bool asked_to_stop() const;
  // Whether checkpoint.minutes have passed since the last checkpoint, or since the attempt began.
  bool time_to_save() const;
  void exchange_logs();
  void restart_clocks();
  void check_divergence();
  [[noreturn]] void diverged(const std::string& what, const std::string& advice);

  AttemptParts& parts_;
  RunLimits limits_;
  RankLogs logs_;
  Cursor started_;                 // past the batch of the last step that was started
  LoopPosition at_;                // the last checkpoint, and the membership
  bool scored_ = false;            // the starting point
  bool complete_ = false;          // all is trained, and the last checkpoint is on the disk
  bool at_boundary_ = false;       // whatever the step is, something is due
  std::deque<StepRecord> recent_;  // in an elastic job, unless this worker is the writer
  Stopwatch since_checkpoint_;
  std::optional<Stopwatch> since_added_;    // workers
  double added_in_ = 0;                     // seconds of that pause
  std::optional<Stopwatch> since_leaving_;  // some worker is to leave
  std::map<int, std::string> leaving_;      // by number, with reasons, after this step
  bool left_ = false;                       // this worker has
  // Both since the last step, or the evaluation or checkpoint after it, ended.
  Stopwatch since_last_step_;
  Stopwatch spans_;  // its laps measure input and logging
  LoopTimes times_;
};

}  // namespace reigen
