// The result of one optimizer step on its way from the stepper to the counters and to the log.
#pragma once

#include <cstdint>
#include <optional>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "observe/record/records.h"
#include "optim/state.h"

namespace reigen {

// The record of a step as the stepper fills it, still without the loop's measurements: a number
// that a stepper measures is declared in observe/record/step_record.h and set where it is measured.
struct StepResult : StepRecord {
  Cursor end;  // where the next batch begins
  // Set where steps overlap (a single GPU): the step's duration by the GPU's clock, and the time
  // for which the GPU was idle before it. Elsewhere the loop measures the step.
  struct DeviceClock {
    double seconds = 0;
    double idle = 0;
  };
  std::optional<DeviceClock> device_clock;
};

// A result with the fields that are known before the step is computed.
StepResult planned_step(const ScheduleOptions& schedule, const Decay& decay, uint64_t step,
                        const ReadyBatch& ready);

// Number of target tokens that the gradient is averaged over: those of the global batch, or in a
// local step (DiLoCo) those of this worker's share, at least 1.
uint64_t averaged_tokens(const ReadyBatch& ready, bool local);

void count_step(Counters& counters, const StepResult& result);

// The loop's own measurements of a step.
struct LoopTimes {
  // Since the end of the previous step, or of an evaluation or checkpoint after it.
  double seconds = 0;
  double input = 0;        // waiting for the batch
  double observe = 0;      // logging the previous step
  double writing = 0;      // a checkpoint was written in the background
  double descheduled = 0;  // see observe/sample/deschedule_watch.h
};
StepRecord step_record(const StepResult& result, const LoopTimes& times, double epoch);

}  // namespace reigen
