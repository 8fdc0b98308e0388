// Reading a run: with and without rollup, live, cut back to a checkpoint, damaged.
#include "observe/record/run_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file/files.h"
#include "observe/record/measurement_log.h"
#include "observe/record/sample_records.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

void write_steps(MeasurementLog& log, uint64_t first, uint64_t last) {
  for (uint64_t step = first; step <= last; ++step) log.append(sample_step(step));
}

TEST(RunReader, ARollupEqualsTheLogsItSummarises) {
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
  RunReader resumed(run.path());
  resumed.refresh();
  std::filesystem::remove(run.path("measurements/rollup.json"));
  RunReader whole(run.path());
  whole.refresh();
  EXPECT_EQ(resumed.run().steps.total("steps"), 3010);
  EXPECT_EQ(resumed.run().to_json(), whole.run().to_json());
  EXPECT_LE(whole.run().steps.rows().size(), 1024u);
}

TEST(RunReader, AnIncompleteRollupIsIgnored) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  write_steps(log, 1, 50);
  RunReader reader(run.path());
  reader.refresh();
  reader.save();
  const std::string path = run.path("measurements/rollup.json");
  const Json whole = read_json(path);
  for (const auto& [key, value] : whole["run"].items()) {
    Json json = whole;
    json["run"].erase(key);
    write_text(path, one_line(json));
    RunReader later(run.path());
    later.refresh();
    EXPECT_EQ(later.run().to_json(), reader.run().to_json()) << key;
  }
}

// Steps are counted modulo the stride.
TEST(RunSummary, ADecayThatIsRecordedAgainAfterACrashCountsOnce) {
  RunSummary run;
  run.add(0, DecayRecord{.step = 30, .steps = 70, .cause = "request"});
  run.add(0, DecayRecord{.step = 30, .steps = 70, .cause = "request"});
  ASSERT_EQ(run.decays.size(), 1u);
  run.add(0, DecayRecord{.step = 100, .cause = "max-steps"});
  ASSERT_EQ(run.decays.size(), 2u);
  EXPECT_EQ(run.decays[1].steps, 0u);
}

TEST(RunSummary, RefusesANumberOfTheWrongKind) {
  const Json good = RunSummary().to_json();
  EXPECT_NO_THROW(RunSummary::from_json(good));
  for (const char* key : {"step_stride", "clock_jumps", "repeated_steps", "newest"}) {
    for (const Json& value : std::vector<Json>{-1, 1e300, "1", nullptr}) {
      Json damaged = good;
      damaged[key] = value;
      EXPECT_THROW(RunSummary::from_json(damaged), DataError) << key << " " << value;
    }
  }
  Json damaged = good;
  for (const uint64_t stride : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 63}) {
    damaged["step_stride"] = stride;
    EXPECT_THROW(RunSummary::from_json(damaged), DataError) << stride;
  }
}

TEST(RunReader, ALogCutBackToACheckpointIsReadFromTheBeginning) {
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

TEST(RunReader, DamagedLinesAreCountedAndAnUnfinishedOneIsReadLater) {
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
  EXPECT_EQ(reader.unfinished_lines(), 1u);
  std::ofstream(path, std::ios::app) << line.substr(40);
  reader.refresh();
  EXPECT_EQ(reader.unfinished_lines(), 0u);
  EXPECT_EQ(reader.run().steps.total("steps"), 3);
}

TEST(RunReader, AttemptsHaveTheTimeOfTheirEndRecordOrOfTheirTimeStamps) {
  RunSummary run;
  run.add(0, StartRecord{.time = 100});
  run.add(0, StepRecord{.step = 1, .time = 130});
  run.add(0, StartRecord{.step = 1, .time = 1000});
  run.add(0, EndRecord{.step = 1, .time = 1050, .seconds = 60});
  ASSERT_EQ(run.attempts.size(), 2u);
  EXPECT_EQ(run.attempts[0].last - run.attempts[0].first, 30);
  EXPECT_EQ(run.attempts[0].seconds, 0);
  EXPECT_EQ(run.attempts[1].seconds, 60);
}

TEST(RunReader, AFolderWithoutLogsIsNotARun) {
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

TEST(RunReader, TwoWritersAreNoticedAndNoStepCountsTwice) {
  TempDir run;
  MeasurementLog one(run.path(), 0, 0);
  one.append(sample_start(0, 1));
  write_steps(one, 1, 30);
  {
    MeasurementLog other(run.path(), 0, 30);  // does not notice the first writer
    write_steps(one, 31, 40);
    write_steps(other, 31, 45);
    write_steps(one, 41, 50);
  }
  RunReader reader(run.path());
  reader.refresh();
  reader.save();
  EXPECT_EQ(reader.run().steps.total("steps"), 50);
  EXPECT_EQ(reader.run().repeated_steps, 15u);
  write_steps(one, 49, 51);
  RunReader later(run.path());
  later.refresh();
  EXPECT_EQ(later.run().steps.total("steps"), 51);
  EXPECT_EQ(later.run().repeated_steps, 17u);
}

TEST(RunReader, ALogThatIsTruncatedWhileItIsReadIsReadAgain) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  write_steps(log, 1, 100);
  RunReader reader(run.path());
  reader.refresh();
  std::filesystem::resize_file(log.path(), std::filesystem::file_size(log.path()) / 2 + 7);
  reader.refresh();
  const double left = reader.run().steps.total("steps");
  EXPECT_LT(left, 100);
  EXPECT_GT(left, 45);
  EXPECT_EQ(reader.damaged_lines(), 0u);  // the truncated line has no newline yet
  log.append(sample_step(101));           // the next record completes it to a damaged line
  reader.refresh();
  EXPECT_EQ(reader.damaged_lines(), 1u);
}

TEST(RunReader, SeveralThreadsReadTheSameAsOne) {
  TempDir run;
  std::vector<std::unique_ptr<MeasurementLog>> logs;
  for (int rank = 0; rank < 5; ++rank) {
    logs.push_back(std::make_unique<MeasurementLog>(run.path(), rank, 0));
    std::string lines;  // 16 MB in all and more
    for (uint64_t step = 1; step <= 12'000; ++step) {
      const Record record =
          rank == 0 ? Record(sample_step(step))
                    : Record(SpansRecord{
                          .step = step, .steps = 1, .seconds = 0.5, .spans = {{"forward", 0.25}}});
      lines += one_line(to_json(record)) + "\n";
    }
    for (int i = 0; i < (rank == 0 ? 1 : 2); ++i) logs.back()->append_lines(lines);
  }
  RunReader reader(run.path());
  reader.refresh();
  EXPECT_GT(reader.bytes_to_read(), 16u << 20);
  EXPECT_DOUBLE_EQ(reader.progress(), 1);
  EXPECT_EQ(reader.run().steps.total("steps"), 12'000);
  for (int rank = 1; rank < 5; ++rank) {
    EXPECT_EQ(reader.run().ranks.at(rank).spans.total("steps"), 24'000) << rank;
  }
}

TEST(RunReader, AFullDiskLeavesTheOldRollupAndNoPartialFile) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  write_steps(log, 1, 10);
  RunReader reader(run.path());
  reader.refresh();
  reader.save();
  const std::string before = read_file(run.path("measurements/rollup.json"));
  write_steps(log, 11, 200);
  reader.refresh();
  {
    FullDisk full(1000);
    reader.save();
  }
  EXPECT_EQ(read_file(run.path("measurements/rollup.json")), before);
  const std::filesystem::directory_iterator files(run.path("measurements"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
  RunReader later(run.path());
  later.refresh();
  EXPECT_EQ(later.run().steps.total("steps"), 200);
}

TEST(RunReader, ReadingCanBeCancelled) {
  TempDir run;
  MeasurementLog log(run.path(), 0, 0);
  write_steps(log, 1, 10);
  RunReader reader(run.path());
  reader.cancel();
  EXPECT_THROW(reader.refresh(), Interrupted);
}

TEST(RunReader, OtherRanksAndHostsAreSummarised) {
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
  const RankSummary& rank = reader.run().ranks.at(1);
  EXPECT_EQ(rank.spans.total("steps"), 4);
  EXPECT_DOUBLE_EQ(rank.spans.total("other"), 0.5);
  EXPECT_DOUBLE_EQ(rank.machine.total("out"), 40);
  EXPECT_DOUBLE_EQ(rank.machine.total("cpu"), 150);
}

}  // namespace
}  // namespace reigen
