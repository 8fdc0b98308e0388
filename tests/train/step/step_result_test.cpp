// From a batch to the result of its step, the counters and the record.
#include "train/step/step_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optim/schedule.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ReadyBatch ready_batch() {
  ReadyBatch ready;
  ready.batch.end = {2, 30};
  ready.batch.pairs.resize(3);
  ready.batch.source_tokens = 40;
  ready.batch.target_tokens = 50;
  ready.micro_batches.resize(2);
  ready.micro_batches[0].target_out = {1, 2, 3};
  ready.micro_batches[1].target_out = {4};
  return ready;
}

TEST(PlannedStep, KnowsItsBatchAndLearningRate) {
  const ScheduleOptions schedule{.kind = ScheduleKind::kFixed, .rate = 0.25, .warmup_steps = 0};
  const StepResult result = planned_step(schedule, {}, 7, ready_batch());
  EXPECT_EQ(result.step, 7u);
  EXPECT_EQ(result.rate, learning_rate(schedule, 7));
  EXPECT_EQ(result.pairs, 3u);
  EXPECT_EQ(result.source_tokens, 40u);
  EXPECT_EQ(result.target_tokens, 50u);
  EXPECT_EQ(result.micro_batches, 2u);
  EXPECT_EQ(result.end, (Cursor{2, 30}));
}

TEST(AveragedTokens, AreTheBatchsOrInALocalStepTheWorkersOwn) {
  ReadyBatch ready = ready_batch();
  EXPECT_EQ(averaged_tokens(ready, false), 50u);
  EXPECT_EQ(averaged_tokens(ready, true), 4u);
  ready.micro_batches.clear();
  EXPECT_EQ(averaged_tokens(ready, true), 1u);
}

TEST(CountStep, AddsUpAndCountsSkippedStepsInARow) {
  Counters counters;
  StepResult result = planned_step({}, {}, 1, ready_batch());
  result.skipped = true;
  count_step(counters, result);
  result.step = 2;
  count_step(counters, result);
  EXPECT_EQ(counters.skipped_in_row, 2u);
  result.step = 3;
  result.skipped = false;
  count_step(counters, result);
  EXPECT_EQ(counters.step, 3u);
  EXPECT_EQ(counters.cursor, (Cursor{2, 30}));
  EXPECT_EQ(counters.pairs, 9u);
  EXPECT_EQ(counters.source_tokens, 120u);
  EXPECT_EQ(counters.target_tokens, 150u);
  EXPECT_EQ(counters.skipped, 2u);
  EXPECT_EQ(counters.skipped_in_row, 0u);
}

TEST(StepRecord, HasTheLoopsTimesAroundTheStepsSpans) {
  StepResult result = planned_step({}, {}, 3, ready_batch());
  result.loss = 1.5;
  result.nll = 1.25;
  result.norm = 2;
  result.spans = {{"forward", 0.1}, {"optimizer", 0.2}};
  const LoopTimes times{.seconds = 0.6, .input = 0.05, .observe = 0.01, .descheduled = 0.02};
  const StepRecord record = step_record(result, times, 2.5);
  EXPECT_EQ(record.step, 3u);
  EXPECT_EQ(record.epoch, 2.5);
  EXPECT_EQ(record.loss, 1.5);
  EXPECT_EQ(record.nll, 1.25);
  EXPECT_EQ(record.norm, 2);
  EXPECT_EQ(record.pairs, 3u);
  EXPECT_EQ(record.micro_batches, 2u);
  EXPECT_EQ(record.seconds, 0.6);
  EXPECT_EQ(record.descheduled_seconds, 0.02);
  EXPECT_FALSE(record.communication);
  EXPECT_THAT(record.spans, ElementsAre(Pair("input", 0.05), Pair("forward", 0.1),
                                        Pair("optimizer", 0.2), Pair("observe", 0.01)));
}

TEST(StepRecord, HasTheDevicesTimesWhereStepsOverlap) {
  StepResult result = planned_step({}, {}, 3, ready_batch());
  result.spans = {{"forward", 0.1}};
  result.device_clock = {.seconds = 0.3, .idle = 0.2};
  const StepRecord record = step_record(result, {.seconds = 9, .input = 9, .observe = 9}, 0);
  EXPECT_EQ(record.seconds, 0.3);
  EXPECT_THAT(record.spans, ElementsAre(Pair("input", 0.2), Pair("forward", 0.1)));
}

}  // namespace
}  // namespace reigen
