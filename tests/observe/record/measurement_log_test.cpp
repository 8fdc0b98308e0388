// The measurement log over crashes, resumes and full disks: every step once.
#include "observe/record/measurement_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "observe/record/log_reader.h"
#include "observe/record/sample_records.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

std::string lines_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += log_line(record);
  return text;
}

// A log as a crashed attempt leaves it.
std::string write_log(const TempDir& run, const std::string& text) {
  std::filesystem::create_directories(run.path("measurements"));
  write_text(run.path("measurements/rank-0.jsonl"), text);
  return run.path("measurements/rank-0.jsonl");
}

std::vector<uint64_t> steps_in(const std::string& path) {
  std::vector<uint64_t> steps;
  for (const Record& record : read_records(path)) {
    if (std::holds_alternative<StepRecord>(record)) steps.push_back(step_of(record));
  }
  return steps;
}

template <class F>
std::string data_error_of(F&& f) {
  try {
    f();
  } catch (const DataError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(MeasurementLog, ContainsEveryRecordInOrderAsSoonAsItIsAppended) {
  TempDir run;
  MeasurementLog log(run.path(), 3, 0);
  EXPECT_EQ(log.path(), run.path("measurements/rank-3.jsonl"));
  EXPECT_EQ(log.cut().attempts, 0u);
  std::vector<Record> expected;
  for (const Record& record :
       std::vector<Record>{sample_start(0, 1), sample_step(1), sample_step(2), sample_evaluation(2),
                           sample_checkpoint(2), sample_end(2)}) {
    log.append(record);
    expected.push_back(record);
    EXPECT_EQ(read_records(log.path()), expected);
  }
  EXPECT_TRUE(log.flush());
}

TEST(MeasurementLog, RemovesTheStepsAfterTheCheckpointAndCountsThem) {
  TempDir run;
  const std::vector<Record> remaining = {sample_start(0, 1), sample_step(1), sample_step(2),
                                         sample_evaluation(2), sample_checkpoint(2)};
  const std::string path =
      write_log(run, lines_of(remaining) +
                         lines_of({sample_step(3), sample_step(4), sample_evaluation(4),
                                   sample_checkpoint(4), sample_end(4)}) +
                         R"({"kind":"step","step":5,"ti)");
  MeasurementLog log(run.path(), 0, 2);
  log.begin();
  EXPECT_EQ(read_file(path), lines_of(remaining));
  EXPECT_EQ(log.cut().attempts, 1u);
  EXPECT_EQ(log.cut().lost_steps, 2u);
  EXPECT_DOUBLE_EQ(log.cut().lost_seconds, 0.5 + 0.5 + 7.5 + 0.25);
  EXPECT_EQ(log.cut().missing_steps, 0u);
}

TEST(MeasurementLog, AnAttemptThatFailsBeforeItsFirstRecordLeavesLostStepsForTheNext) {
  TempDir run;
  const std::string text =
      lines_of({sample_start(0, 1), sample_step(1), sample_checkpoint(1), sample_step(2)});
  const std::string path = write_log(run, text);
  for (int attempt = 0; attempt < 2; ++attempt) {
    MeasurementLog log(run.path(), 0, 1);
    EXPECT_EQ(log.cut().lost_steps, 1u);
    EXPECT_TRUE(log.flush());
  }
  EXPECT_EQ(read_file(path), text);
  MeasurementLog log(run.path(), 0, 1);
  log.append(sample_step(2));
  EXPECT_THAT(steps_in(path), ElementsAre(1, 2));
}

TEST(MeasurementLog, TheFirstRecordIsInTheFileAsSoonAsLostStepsAreNot) {
  for (const bool with_later_line : {false, true}) {  // cut off, or copied
    TempDir run;
    std::string text = lines_of({sample_start(0, 1), sample_step(1), sample_step(2)});
    if (with_later_line) text += lines_of({sample_checkpoint(1)});
    const std::string path = write_log(run, text);
    MeasurementLog log(run.path(), 0, 1);
    StartRecord start = sample_start(1, 2);
    start.lost_steps = log.cut().lost_steps;
    log.append(start);  // not flushed: what a process leaves that is killed now
    const MeasurementLog next(run.path(), 0, 1);
    EXPECT_EQ(next.cut().attempts, 2u);
    EXPECT_EQ(next.cut().lost_steps, 0u);
    EXPECT_THAT(read_file(path), testing::EndsWith(log_line(start)));
  }
}

TEST(MeasurementLog, CountsTheLostStepsOfARemovedAttemptAgain) {
  TempDir run;
  StartRecord second = sample_start(2, 2);
  second.lost_steps = 80;
  second.lost_seconds = 40;
  write_log(run, lines_of({sample_start(0, 1), sample_step(1), sample_step(2), second}));
  MeasurementLog log(run.path(), 0, 1);  // the checkpoint of step 2 could not be read
  EXPECT_EQ(log.cut().lost_steps, 81u);
  EXPECT_DOUBLE_EQ(log.cut().lost_seconds, 40.5);
}

TEST(MeasurementLog, LosesNothingAfterACleanStop) {
  TempDir run;
  const std::string text = lines_of({sample_start(0, 1), sample_step(1), sample_step(2),
                                     sample_checkpoint(2), sample_evaluation(2), sample_end(2)});
  const std::string path = write_log(run, text);
  MeasurementLog log(run.path(), 0, 2);
  EXPECT_EQ(read_file(path), text);
  EXPECT_EQ(log.cut().lost_steps, 0u);
  EXPECT_EQ(log.cut().lost_seconds, 0);
}

TEST(MeasurementLog, RetainsACheckpointThatWasRecordedAfterLaterSteps) {
  TempDir run;
  const std::string path =
      write_log(run, lines_of({sample_start(0, 1), sample_step(1), sample_step(2), sample_step(3),
                               sample_checkpoint(2), sample_step(4)}) +
                         "half a l");
  MeasurementLog log(run.path(), 0, 2);
  log.begin();
  EXPECT_EQ(read_file(path),
            lines_of({sample_start(0, 1), sample_step(1), sample_step(2), sample_checkpoint(2)}));
  EXPECT_EQ(log.cut().lost_steps, 2u);
  EXPECT_FALSE(path_exists(path + ".partial"));
  log.append(sample_step(3));
  EXPECT_THAT(steps_in(path), ElementsAre(1, 2, 3));
}

TEST(MeasurementLog, HasEachStepOnceOverTwoResumes) {
  TempDir run;
  const std::string path = MeasurementLog::path_of(run.path(), 0);
  std::vector<uint64_t> attempts;
  // Checkpoints every 5 steps; the attempts crash at 8, at 13 (in the middle of a line), end at 20.
  for (const auto& [after, until] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 8}, {5, 13}, {10, 20}}) {
    MeasurementLog log(run.path(), 0, after);
    attempts.push_back(log.cut().attempts + 1);
    EXPECT_EQ(log.cut().lost_steps, after == 0 ? 0u : 3u);
    StartRecord start = sample_start(after, log.cut().attempts + 1);
    start.lost_steps = log.cut().lost_steps;
    log.append(start);
    for (uint64_t step = after + 1; step <= until; ++step) {
      log.append(sample_step(step));
      if (step % 5 == 0) log.append(sample_checkpoint(step));
    }
    if (until == 13) write_text(path, read_file(path) + R"({"kind":"st)");
  }
  std::vector<uint64_t> all;
  for (uint64_t step = 1; step <= 20; ++step) all.push_back(step);
  EXPECT_EQ(steps_in(path), all);
  EXPECT_THAT(attempts, ElementsAre(1, 2, 3));
}

TEST(MeasurementLog, CountsAttemptsThatLeftNothingElse) {
  TempDir run;
  write_log(run, lines_of({sample_start(0, 1), sample_step(1), sample_step(2), sample_checkpoint(2),
                           sample_start(2, 2), sample_start(2, 3), sample_step(3)}));
  EXPECT_EQ(MeasurementLog(run.path(), 0, 2).cut().attempts, 3u);
  // From an older checkpoint: the attempts are removed from the log but still counted.
  EXPECT_EQ(MeasurementLog(run.path(), 0, 1).cut().attempts, 3u);
}

TEST(MeasurementLog, WarnsWhenStepsBeforeTheCheckpointAreMissing) {
  TempDir run;
  write_log(run, lines_of({sample_start(0, 1), sample_step(1), sample_step(2)}) + "{\"kind\"");
  CaptureStderr();
  MeasurementLog log(run.path(), 0, 4);
  EXPECT_EQ(log.cut().missing_steps, 2u);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("2 of the 4 steps"));
}

TEST(MeasurementLog, RemovesDamageAfterTheCheckpoint) {
  TempDir run;
  const std::string remaining = lines_of({sample_start(0, 1), sample_step(1), sample_step(2)});
  const std::string zeros(500, '\0');
  const std::string path =
      write_log(run, remaining + zeros + "\n" + log_line(sample_step(4)) + zeros);
  MeasurementLog log(run.path(), 0, 2);
  log.begin();
  EXPECT_EQ(read_file(path), remaining);
}

TEST(MeasurementLog, ReportsDamageBeforeTheCheckpointAndRemovesNothing) {
  TempDir run;
  const std::string text =
      log_line(sample_start(0, 1)) + "garbage\n" + lines_of({sample_step(2), sample_step(3)});
  const std::string path = write_log(run, text);
  EXPECT_THAT(data_error_of([&] { MeasurementLog(run.path(), 0, 2); }), HasSubstr(path + ":2: "));
  EXPECT_EQ(read_file(path), text);
}

TEST(MeasurementLog, SurvivesAFullDiskWithoutGapsOrRepeats) {
  TempDir run;
  std::string expected;
  CaptureStderr();
  {
    MeasurementLog log(run.path(), 0, 0);
    FullDisk disk(5000);
    for (uint64_t step = 1; step <= 60; ++step) {
      if (step == 40) disk.set(1 << 20);
      log.append(sample_step(step));
      expected += log_line(sample_step(step));
      if (step < 40) {
        // A reader sees complete records, in order.
        const std::vector<uint64_t> seen = steps_in(log.path());
        ASSERT_LE(seen.size(), step);
        for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i + 1);
      }
      if (step == 39) {
        ASSERT_EQ(file_size(log.path()), 5000u);
        ASSERT_FALSE(log.flush());
      }
    }
    EXPECT_EQ(read_file(log.path()), expected);
    EXPECT_TRUE(log.flush());
  }
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot write"));
  EXPECT_THAT(said, HasSubstr("can be written again"));
}

TEST(MeasurementLog, RemovesStepsEvenOnAFullDisk) {
  TempDir run;
  const std::string remaining = lines_of({sample_start(0, 1), sample_step(1), sample_step(2)});
  std::string text = remaining;
  for (uint64_t step = 3; step < 100; ++step) text += log_line(sample_step(step));
  const std::string path = write_log(run, text);
  FullDisk disk(remaining.size());
  MeasurementLog log(run.path(), 0, 2);
  log.begin();
  EXPECT_EQ(read_file(path), remaining);
}

TEST(LogReader, NamesFileAndLineOfDamage) {
  TempDir run;
  const std::string path = write_log(run, log_line(sample_step(1)) + log_line(sample_step(2)) +
                                              "{\"kind\":\"step\"}\n" + log_line(sample_step(3)));
  EXPECT_EQ(data_error_of([&] { read_records(path); }), path + ":3: \"step\" is missing");
  write_log(run, log_line(sample_step(1)) + "\n");
  EXPECT_THAT(data_error_of([&] { read_records(path); }), HasSubstr(path + ":2: "));
  EXPECT_THAT(data_error_of([&] { read_records(path + "x"); }), HasSubstr(path + "x"));
}

TEST(LogReader, LeavesOutALineThatIsStillBeingWritten) {
  TempDir run;
  const std::string second = log_line(sample_step(2));
  for (size_t length = 0; length < second.size(); ++length) {
    const std::string path = write_log(run, log_line(sample_step(1)) + second.substr(0, length));
    ASSERT_THAT(steps_in(path), ElementsAre(1)) << length;
  }
}

TEST(LogReader, FindsLinesAcrossItsReads) {
  TempDir run;
  EvaluationRecord large = sample_evaluation(1);
  large.samples[0].source = std::string(300'000, 'x');  // longer than one read
  std::vector<Record> records;
  for (uint64_t i = 0; i < 20; ++i) {
    large.step = i;
    records.emplace_back(large);
    records.emplace_back(sample_step(i));
  }
  EXPECT_EQ(read_records(write_log(run, lines_of(records))), records);
}

}  // namespace
}  // namespace reigen
