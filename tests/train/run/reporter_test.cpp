// Progress lines, warnings and logs of a run.
#include "train/run/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file/files.h"
#include "base/terminal.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class ReporterTest : public testing::Test {
 protected:
  ReporterTest() {
    options.run = dir.path("run");
    std::filesystem::create_directory(options.run);
    options.max_steps = 100;
    options.log_every = 2;
    set_quiet(true);
  }
  ~ReporterTest() override { set_quiet(false); }

  static StepRecord step(uint64_t number, double loss, bool skipped = false) {
    StepRecord record;
    record.step = number;
    record.loss = record.nll = loss;
    record.target_tokens = 500;
    record.seconds = 0.5;
    record.epoch = 0.01 * static_cast<double>(number);
    record.skipped = skipped;
    return record;
  }
  std::string log() const { return read_file(options.run + "/log.txt"); }

  TempDir dir;
  TrainOptions options;
};

TEST_F(ReporterTest, ALineIsTheMeanOfTheStepsSinceTheLastOne) {
  Reporter reporter(options, 0, 0);
  reporter.step(step(1, 9));
  reporter.step(step(2, 5));
  reporter.step(step(3, 4));
  reporter.step(step(4, 2));
  EXPECT_THAT(log(), HasSubstr("step 1/100  epoch 0.01  loss 9.0000"));
  EXPECT_THAT(log(), HasSubstr("step 2/100  epoch 0.02  loss 5.0000"));
  EXPECT_THAT(log(), HasSubstr("step 4/100  epoch 0.04  loss 3.0000"));
  EXPECT_THAT(log(), HasSubstr("1,000 tok/s"));
  EXPECT_THAT(log(), Not(HasSubstr("step 3/100")));
}

TEST_F(ReporterTest, ASkippedStepIsAWarningAndLeftOutOfTheMean) {
  Reporter reporter(options, 0, 0);
  reporter.step(step(1, 9));
  reporter.step(step(3, NAN, true));
  reporter.step(step(4, 2));
  EXPECT_THAT(log(), HasSubstr("warning: step 3: "));
  EXPECT_THAT(log(), HasSubstr("step 4/100  epoch 0.04  loss 2.0000"));
}

TEST_F(ReporterTest, AFailedCheckpointIsAWarningAndAWrittenOneALineOfTheLog) {
  Reporter reporter(options, 0, 0);
  reporter.checkpoint({.step = 7, .path = "p", .bytes = 1'500'000, .write_seconds = 0.5});
  reporter.checkpoint({.step = 8, .path = "p", .error = "No space left on device"});
  EXPECT_THAT(log(), AllOf(HasSubstr("step 7"), HasSubstr("1.50 MB")));
  EXPECT_THAT(log(), ContainsRegex("warning: .*step 8 .*No space left on device"));
}

TEST_F(ReporterTest, TheFirstCheckpointAfterAFailureIsNotedOnTheTerminal) {
  set_quiet(false);
  Reporter reporter(options, 0, 0);
  testing::internal::CaptureStderr();
  reporter.checkpoint({.step = 8, .path = "p", .error = "No space left on device"});
  for (uint64_t step : {9, 10}) reporter.checkpoint({.step = step, .path = "p"});
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("step 9"));
  EXPECT_THAT(shown, Not(HasSubstr("step 10")));
}

TEST_F(ReporterTest, TheLogIsSafeForATerminal) {
  Reporter reporter(options, 0, 0);
  EvaluationRecord record;
  record.samples = {{.source = "a\x1b[2J", .reference = "\u202eb", .hypothesis = "c\xff"}};
  reporter.evaluation(record);
  EXPECT_THAT(log(), HasSubstr("a\\x1b[2J"));
  EXPECT_THAT(log(), HasSubstr("\\u202eb"));
  EXPECT_THAT(log(), HasSubstr("c\\xff"));
}

TEST_F(ReporterTest, AnAttemptThatFailsBeforeItsStartLeavesLostStepsToTheNext) {
  {
    Reporter reporter(options, 0, 0);
    reporter.start({});
    for (uint64_t s = 1; s <= 6; ++s) reporter.step(step(s, 1));
  }
  { const Reporter failed(options, 4, 10); }
  Reporter reporter(options, 4, 10);
  EXPECT_EQ(reporter.cut().lost_steps, 2u);
}

TEST_F(ReporterTest, AResumedRunAppendsToItsLogAndCountsLostSteps) {
  {
    Reporter reporter(options, 0, 0);
    reporter.start({});
    for (uint64_t s = 1; s <= 6; ++s) reporter.step(step(s, 1));
  }
  Reporter reporter(options, 4, 10);
  EXPECT_EQ(reporter.cut().attempts, 1u);
  EXPECT_EQ(reporter.cut().lost_steps, 2u);
  reporter.step(step(5, 7));
  EXPECT_THAT(log(), HasSubstr("step 6/100"));
  EXPECT_THAT(log(), HasSubstr("step 5/100  epoch 0.05  loss 7.0000"));
}

TEST_F(ReporterTest, RecordsOfOtherRanksAreWrittenToTheirLogs) {
  Reporter reporter(options, 0, 0);
  SampleRecord sample;
  sample.host = "b";
  const SpansRecord spans = {.step = 3};
  reporter.add_records({{}, {spans, sample}});
  EXPECT_EQ(read_file(options.run + "/measurements/rank-1.jsonl"),
            log_line(spans) + log_line(sample));
  EXPECT_EQ(read_file(options.run + "/measurements/rank-0.jsonl"), "");
}

TEST_F(ReporterTest, RecordsFollowARunThatIsMoved) {
  Reporter reporter(options, 0, 0);
  reporter.start({.workers = 2});
  const std::string moved = dir.path("moved");
  std::filesystem::rename(options.run, moved);
  reporter.stop_rollup();
  const SpansRecord spans = {.step = 3};
  reporter.add_records({{}, {spans}, {spans}});  // a third rank has no log yet
  reporter.flush();
  EXPECT_EQ(read_file(moved + "/measurements/rank-1.jsonl"), log_line(spans));
  EXPECT_FALSE(path_exists(options.run));
}

TEST_F(ReporterTest, AnEvaluationShowsScoresAndSamples) {
  Reporter reporter(options, 0, 0);
  EvaluationRecord record;
  record.step = 5;
  record.nll = 2;
  record.perplexity = 7.389;
  record.bleu = 31.25;
  record.chrf = 55.5;
  record.is_best_bleu = true;
  record.samples = {{"a source", "a reference", "a translation"}};
  reporter.evaluation(record);
  record.perplexity = 1e30;
  record.bleu = record.chrf = std::nullopt;
  reporter.evaluation(record);
  EXPECT_THAT(log(), HasSubstr("loss 2.0000  perplexity 7.39  BLEU 31.25 (best)  chrF 55.50"));
  EXPECT_THAT(log(), HasSubstr("translation a translation"));
  EXPECT_THAT(log(), HasSubstr("perplexity 1.00e+30  0.0 ms"));
}

}  // namespace
}  // namespace reigen
