#include "train/step/step_result.h"

#include <algorithm>

#include "optim/schedule.h"

namespace reigen {

StepResult planned_step(const ScheduleOptions& schedule, const Decay& decay, uint64_t step,
                        const ReadyBatch& ready) {
  StepResult result;
  result.step = step;
  result.rate = learning_rate(schedule, step, decay);
  result.source_tokens = ready.batch.source_tokens;
  result.target_tokens = ready.batch.target_tokens;
  result.pairs = ready.batch.pairs.size();
  result.micro_batches = ready.micro_batches.size();
  result.end = ready.batch.end;
  return result;
}

uint64_t averaged_tokens(const ReadyBatch& ready, bool local) {
  if (!local) return ready.batch.target_tokens;
  uint64_t tokens = 0;
  for (const PackedBatch& micro : ready.micro_batches) tokens += micro.target_out.size();
  return std::max<uint64_t>(1, tokens);
}

void count_step(Counters& counters, const StepResult& result) {
  counters.step = result.step;
  counters.cursor = result.end;
  counters.pairs += result.pairs;
  counters.source_tokens += result.source_tokens;
  counters.target_tokens += result.target_tokens;
  counters.skipped += result.skipped ? 1 : 0;
  counters.skipped_in_row = result.skipped ? counters.skipped_in_row + 1 : 0;
}

StepRecord step_record(const StepResult& result, const LoopTimes& times, double epoch) {
  StepRecord record = result;
  record.time = unix_now();
  record.epoch = epoch;
  record.descheduled_seconds = times.descheduled;
  record.writing_seconds = std::min(times.writing, times.seconds);
  const auto& clock = result.device_clock;
  record.spans.insert(record.spans.begin(), {"input", clock ? clock->idle : times.input});
  if (!clock) record.spans.emplace_back("observe", times.observe);
  record.seconds = clock ? clock->seconds : times.seconds;
  return record;
}

}  // namespace reigen
