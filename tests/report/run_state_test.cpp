// The state of a run by its log, its process and its silence.
#include "report/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "observe/record/sample_records.h"

namespace reigen {
namespace {

constexpr uint64_t kNoProcess = 1 << 30;  // above every pid_max

StartRecord start_on(const std::string& host, uint64_t process, double time) {
  StartRecord start = sample_start(0, 1);
  start.host = host;
  start.process = process;
  start.time = time;
  return start;
}

TEST(RunState, ARunWithoutARecordIsStarting) {
  EXPECT_EQ(state_of(RunSummary(), 0).kind, RunStateKind::kStarting);
}

TEST(RunState, ARunWithAnEndRecordHasEndedEvenIfEarlierAttemptsWereKilled) {
  RunSummary run;
  run.add(0, start_on("elsewhere", 1, 1000));  // was killed
  run.add(0, start_on("elsewhere", 1, 2000));
  EXPECT_NE(state_of(run, 2001).kind, RunStateKind::kEnded);
  run.add(0, EndRecord{.step = 5, .time = 2100, .reason = "max-steps"});
  const RunState ended = state_of(run, 1e9);
  EXPECT_EQ(ended.kind, RunStateKind::kEnded);
  EXPECT_THAT(ended.text, ::testing::HasSubstr("max-steps"));
  EXPECT_EQ(state_of(RunSummary::from_json(run.to_json()), 1e9).kind, RunStateKind::kEnded);
  run.add(0, start_on("elsewhere", 1, 3000));  // resumed
  EXPECT_EQ(state_of(run, 3001).kind, RunStateKind::kRunning);
}

TEST(RunState, ARunWhoseProcessDoesNotExistOnThisHostIsGone) {
  RunSummary run;
  run.add(0, start_on(host_name(), kNoProcess, 1000));
  EXPECT_EQ(state_of(run, 1001).kind, RunStateKind::kGone);
}

TEST(RunState, ARunWhoseProcessExistsOnThisHostIsRunning) {
  RunSummary run;
  run.add(0, start_on(host_name(), static_cast<uint64_t>(getpid()), unix_now()));
  EXPECT_EQ(state_of(run, unix_now() + 1e6).kind, RunStateKind::kRunning);  // however silent it is
}

TEST(RunState, AReusedProcessNumberIsNotTheRun) {
  RunSummary run;
  run.add(0, start_on(host_name(), static_cast<uint64_t>(getpid()), 1000));
  EXPECT_EQ(state_of(run, 1e6).kind, RunStateKind::kSilent);
}

TEST(RunState, ARunOnADifferentHostIsSilentAfterThreeTimesItsLongestPause) {
  RunSummary run;
  run.add(0, start_on("elsewhere", 1, 1000));
  EXPECT_EQ(state_of(run, 1050).kind, RunStateKind::kRunning);
  EXPECT_EQ(state_of(run, 1100).kind, RunStateKind::kSilent);
  EvaluationRecord evaluation = sample_evaluation(10);
  evaluation.time = 1000;
  evaluation.seconds = 400;
  run.add(0, evaluation);
  EXPECT_EQ(state_of(run, 1100).kind, RunStateKind::kRunning);
  EXPECT_EQ(state_of(run, 2300).kind, RunStateKind::kSilent);
}

}  // namespace
}  // namespace reigen
