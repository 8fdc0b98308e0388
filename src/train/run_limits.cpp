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

bool RunLimits::stalled(const Counters& c) const {
  return reached(c.evaluations_without_gain, options_.eval.patience);
}

DueDecay RunLimits::decay_due(const Counters& c, uint64_t requested) const {
  if (decay_.active() || c.step == 0 || c.skipped_in_row > 0) return {};
  if (requested > 0) return {requested, "request"};
  if (options_.schedule.kind != ScheduleKind::kWsd || !stalled(c)) return {};
  return {stalled_decay(options_.schedule, c.step), "stalled"};
}

StopReason RunLimits::reached_limit(uint64_t step, const Cursor& cursor, bool time_over) const {
  if (decay_.active()) return step >= decay_.end() ? StopReason::kDecayed : StopReason::kNone;
  if (reached(step, options_.max_steps)) return StopReason::kMaxSteps;
  if (options_.max_epochs > 0 && epochs(cursor) >= options_.max_epochs) {
    return StopReason::kMaxEpochs;
  }
  return time_over ? StopReason::kMaxTime : StopReason::kNone;
}

bool RunLimits::boundary(uint64_t step, const Cursor& cursor, const StopRequests& requests) const {
  return requests.interrupted || requests.save || requests.change ||
         (requests.decay_steps > 0 && !decay_.active()) || is_multiple(step, options_.eval.every) ||
         is_multiple(step, options_.checkpoint.every) ||
         reached_limit(step, cursor, requests.time_over) != StopReason::kNone;
}

StopReason RunLimits::reason_to_stop(const Counters& c, const StopRequests& requests) const {
  if (requests.interrupted) return StopReason::kSignal;
  const StopReason limit = reached_limit(c.step, c.cursor, requests.time_over);
  if (limit != StopReason::kNone) return limit;
  const bool decays = decay_.active() || options_.schedule.kind == ScheduleKind::kWsd;
  return stalled(c) && !decays ? StopReason::kPatience : StopReason::kNone;
}

bool RunLimits::evaluation_due(const Counters& c, StopReason reason) const {
  if (!validated_ || c.step == 0 || c.evaluated_step == c.step) return false;
  if (reason == StopReason::kSignal || c.skipped_in_row > 0) return false;
  return reason != StopReason::kNone || is_multiple(c.step, options_.eval.every);
}

bool RunLimits::checkpoint_due(const Counters& c, StopReason reason, const LastCheckpoint& last,
                               bool save_requested) const {
  if (c.step == 0) return false;
  if (last.changed_since) return true;
  const bool wanted = save_requested || is_multiple(c.step, options_.checkpoint.every);
  const bool regular = wanted && c.skipped_in_row == 0;
  return (regular || reason != StopReason::kNone) && last.step != c.step;
}

}  // namespace reigen
