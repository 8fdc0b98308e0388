// Reading a run: rolled up or not, live, cut back, damaged.
#include "observe/run_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "observe/measurement_log.h"
#include "observe/sample_records.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

void write_steps(MeasurementLog& log, uint64_t first, uint64_t last) {
  for (uint64_t step = first; step <= last; ++step) log.append(sample_step(step));
}

TEST(RunReader, WhatIsRolledUpEqualsWhatIsRead) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  log.append(sample_start(0, 1));
  write_steps(log, 1, 3000);
  log.append(sample_evaluation(3000));
  RunReader first(run.path());
  EXPECT_TRUE(first.refresh());
  EXPECT_FALSE(first.refresh());
  first.save();
  write_steps(log, 3001, 3010);
  RunReader rolled(run.path());
  rolled.refresh();
  std::filesystem::remove(run.path("measurements/rollup.json"));
  RunReader whole(run.path());
  whole.refresh();
  EXPECT_EQ(rolled.run().steps.total("steps"), 3010);
  EXPECT_EQ(rolled.run().to_json(), whole.run().to_json());
  EXPECT_LE(whole.run().steps.rows().size(), 1024u);
}

TEST(RunReader, ALogCutBackToACheckpointIsReadAnew) {
  TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    write_steps(log, 1, 50);
  }
  RunReader reader(run.path());
  reader.refresh();
  reader.save();
  MeasurementLog log(run.path(), 0, 20);
  write_steps(log, 21, 60);
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.run().steps.total("steps"), 60);
  RunReader other(run.path());
  other.refresh();
  EXPECT_EQ(other.run().steps.total("steps"), 60);
}

TEST(RunReader, DamagedLinesAreCountedAndAnUnfinishedOneWaits) {
  TempDir run;
  {
    MeasurementLog log(run.path(), 0, 0);
    write_steps(log, 1, 2);
  }
  const std::string path = run.path("measurements/rank-0.jsonl");
  const std::string line = one_line(to_json(Record(sample_step(3)))) + "\n";
  std::ofstream(path, std::ios::app) << "{oops}\n" << line.substr(0, 40);
  RunReader reader(run.path());
  reader.refresh();
  EXPECT_EQ(reader.damaged_lines(), 1u);
  EXPECT_EQ(reader.run().steps.total("steps"), 2);
  std::ofstream(path, std::ios::app) << line.substr(40);
  reader.refresh();
  EXPECT_EQ(reader.run().steps.total("steps"), 3);
}

TEST(RunReader, AFolderWithoutLogsIsNoRun) {
  TempDir run;
  RunReader reader(run.path());
  EXPECT_THROW(reader.refresh(), DataError);
}

TEST(RunReader, AClockThatJumpsIsCountedAndChangesNoDuration) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  for (uint64_t step = 1; step <= 20; ++step) {
    StepRecord record = sample_step(step);
    if (step >= 10) record.time -= 7200;
    log.append(record);
  }
  RunReader reader(run.path());
  reader.refresh();
  EXPECT_EQ(reader.run().clock_jumps, 1u);
  EXPECT_DOUBLE_EQ(reader.run().steps.total("seconds"), 10);
}

TEST(RunReader, OtherRanksAndMachinesAreMerged) {
  TempDir run;
  MeasurementLog first(run.path(), 0, 0);
  write_steps(first, 1, 4);
  MeasurementLog second(run.path(), 1, 0);
  second.append(SpansRecord{.step = 4, .steps = 4, .seconds = 2, .spans = {{"backward", 1.5}}});
  second.append(SampleRecord{.step = 4,
                             .seconds = 2,
                             .host = "b",
                             .cores = {50, 100},
                             .interfaces = {{"eth0", 10, 20, 0, true}, {"lo", 99, 99, 0, false}}});
  RunReader reader(run.path());
  reader.refresh();
  const RankFold& rank = reader.run().ranks.at(1);
  EXPECT_EQ(rank.spans.total("steps"), 4);
  EXPECT_DOUBLE_EQ(rank.spans.total("other"), 0.5);
  EXPECT_DOUBLE_EQ(rank.machine.total("out"), 40);
  EXPECT_DOUBLE_EQ(rank.machine.total("cpu"), 150);
}

}  // namespace
}  // namespace reigen
