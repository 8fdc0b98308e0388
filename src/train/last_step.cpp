#include "train/last_step.h"

#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "optim/schedule.h"
#include "train/run_limits.h"

namespace reigen {

BatchSize batch_size(const TrainOptions& options) {
  if (options.batch.pairs > 0) return {.pairs = static_cast<uint64_t>(options.batch.pairs)};
  return {.target_tokens = static_cast<uint64_t>(options.batch.target_tokens)};
}

int64_t planned_last_step(const TrainOptions& options, const Dataset& train) {
  const bool by_epochs = options.schedule.kind == ScheduleKind::kWsd && options.max_epochs > 0;
  const double pairs = options.max_epochs * static_cast<double>(train.pairs());
  if (!by_epochs || pairs > kMostCountedPairs) return options.max_steps;
  const Decay none;
  const RunLimits limits(options, train, false, none);
  BatchStream stream(train, static_cast<uint64_t>(options.seed), batch_size(options));
  int64_t step = 0;
  do {
    check_interrupt();
    stream.next();
    ++step;
  } while (step != options.max_steps && limits.epochs(stream.cursor()) < options.max_epochs);
  return step;
}

std::string missing_decay(const TrainOptions& options) {
  const ScheduleOptions& schedule = options.schedule;
  if (schedule.kind != ScheduleKind::kWsd || planned_decay(schedule).active()) return "";
  if (schedule.last_step > 0) {
    return format(
        "schedule.kind wsd has no steps for its decay: the last step is {} and the warm-up ends "
        "at step {}; lower schedule.warmup-steps, or train for more steps",
        schedule.last_step, schedule.warmup_steps);
  }
  if (options.max_time == 0 && options.max_epochs == 0) return "";
  return format(
      "{} may end the run before the learning rate of schedule.kind wsd decays, because the number "
      "of steps until then is not known; give --max-steps, or begin the decay before with `reigen "
      "train --run {} --decay-now N`",
      options.max_time > 0 ? "--max-time" : "--max-epochs",
      options.run.empty() ? "RUN" : shell_word(options.run));
}

std::string unfinished_decay(const TrainOptions& options, uint64_t step) {
  const Decay decay = planned_decay(options.schedule);
  if (!decay.active() || step >= decay.end()) return "";
  return format(
      "--max-time ended the run at step {}, before the end of the decay of its learning rate at "
      "step {}; resume it with a higher --max-time, or with --decay-now N",
      step, decay.end());
}

}  // namespace reigen
