#include "train/run_limits.h"

#include "data/order.h"

namespace reigen {
namespace {

bool is_multiple(uint64_t step, int64_t every) {
  return every > 0 && step % static_cast<uint64_t>(every) == 0;
}

bool reached(uint64_t count, int64_t limit) {
  return limit > 0 && count >= static_cast<uint64_t>(limit);
}

}  // namespace

const char* text_of(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxSteps:
      return "max-steps";
    case StopReason::kMaxEpochs:
      return "max-epochs";
    case StopReason::kMaxTime:
      return "max-time";
    case StopReason::kPatience:
      return "early stopping";
    case StopReason::kDecayed:
      return "end of the decay";
    case StopReason::kSignal:
      return "signal";
    case StopReason::kNone:
      break;
  }
  return "";
}

double RunLimits::epochs(const Cursor& cursor) const {
  const EpochOrder order(train_.corpora(), static_cast<uint64_t>(options_.seed), cursor.epoch);
  return static_cast<double>(cursor.epoch) +
         static_cast<double>(cursor.position) / static_cast<double>(order.size());
}

bool RunLimits::at_last_step(uint64_t step) const {
  return decay_.active() ? step >= decay_.end() : reached(step, options_.max_steps);
}

bool RunLimits::stalled(const Counters& c) const {
  return reached(c.evaluations_without_gain, options_.eval.patience);
}

bool RunLimits::decay_due(const Counters& c) const {
  return options_.schedule.kind == ScheduleKind::kWsd && options_.max_steps == 0 &&
         !decay_.active() && stalled(c);
}

bool RunLimits::boundary(uint64_t step, const Cursor& cursor, const StopRequests& requests) const {
  return requests.interrupted || requests.time_over || is_multiple(step, options_.eval.every) ||
         is_multiple(step, options_.checkpoint.every) || at_last_step(step) ||
         (options_.max_epochs > 0 && epochs(cursor) >= options_.max_epochs);
}

StopReason RunLimits::reason_to_stop(const Counters& c, const StopRequests& requests) const {
  if (requests.interrupted) return StopReason::kSignal;
  if (at_last_step(c.step)) {
    return decay_.active() ? StopReason::kDecayed : StopReason::kMaxSteps;
  }
  if (options_.max_epochs > 0 && epochs(c.cursor) >= options_.max_epochs) {
    return StopReason::kMaxEpochs;
  }
  if (requests.time_over) return StopReason::kMaxTime;
  if (stalled(c) && !decay_.active()) return StopReason::kPatience;
  return StopReason::kNone;
}

bool RunLimits::evaluation_due(const Counters& c, StopReason reason) const {
  if (!validated_ || c.step == 0 || c.evaluated_step == c.step) return false;
  if (reason == StopReason::kSignal || c.skipped_in_row > 0) return false;
  return reason != StopReason::kNone || is_multiple(c.step, options_.eval.every);
}

bool RunLimits::checkpoint_due(const Counters& c, StopReason reason,
                               const LastCheckpoint& last) const {
  if (c.step == 0) return false;
  if (last.evaluated_since) return true;
  const bool regular = is_multiple(c.step, options_.checkpoint.every) && c.skipped_in_row == 0;
  return (regular || reason != StopReason::kNone) && last.step != c.step;
}

}  // namespace reigen
