// A run directory that another writer may still have open.
#include "train/run/take_over.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/append_file.h"
#include "base/file/files.h"
#include "observe/record/measurement_log.h"
#include "support/temp_dir.h"
#include "train/directory/checkpoint_writer.h"
#include "train/small_run.h"

namespace reigen {
namespace {

class TakeOver : public testing::Test {
 protected:
  TempDir dir;
  std::string path = dir.path("run");
};

TEST_F(TakeOver, TheOldWriterWritesWhereNobodyReads) {
  const RunDirectory old_run(path);
  old_run.write("config.yaml", "seed: 1\n");
  MeasurementLog old_log(path, 0, 0);
  TextLog old_text(path + "/log.txt");
  old_log.append(StartRecord{});
  for (uint64_t step = 1; step <= 7; ++step) old_log.append(StepRecord{.step = step});
  old_text.write("a line\n");
  EXPECT_EQ(last_logged_step(path), 7u);

  const std::unique_ptr<RunDirectory> run = take_over_run(path);
  MeasurementLog log(path, 0, last_logged_step(path));
  EXPECT_EQ(log.cut().attempts, 1u);
  EXPECT_EQ(log.cut().missing_steps, 0u);
  old_log.append(StepRecord{.step = 8});
  old_text.write("a line of the old writer\n");
  EXPECT_EQ(last_logged_step(path), 7u);
  EXPECT_EQ(read_file(path + "/log.txt"), "a line\n");
  log.append(StepRecord{.step = 8});
  log.append(StepRecord{.step = 9});
  old_log.append(StepRecord{.step = 9});
  EXPECT_EQ(last_logged_step(path), 9u);
}

// It is sent to the other workers.
TEST_F(TakeOver, AnIdIsNoLinkAndNotLong) {
  const RunDirectory run(path);
  EXPECT_EQ(make_run_id(run), make_run_id(run));
  const std::string id = path + "/run-id";
  std::filesystem::rename(id, dir.path("secret"));
  std::filesystem::create_symlink(dir.path("secret"), id);
  EXPECT_THROW(make_run_id(run), DataError);
  EXPECT_FALSE(sees_run(path, read_file(dir.path("secret"))));
  std::filesystem::remove(id);
  run.write("run-id", std::string(2'000'000, 'a'));
  EXPECT_THROW(make_run_id(run), DataError);
}

TEST_F(TakeOver, AnUnfinishedLineOfTheOldWriterIsLeftOut) {
  {
    const RunDirectory old_run(path);
    old_run.write("config.yaml", "seed: 1\n");
    MeasurementLog(path, 0, 0).append(StepRecord{.step = 1});
    AppendFile(MeasurementLog::path_of(path, 0)).append("{\"kind\":\"step\",\"st");
  }
  const std::unique_ptr<RunDirectory> run = take_over_run(path);
  EXPECT_EQ(last_logged_step(path), 1u);
  EXPECT_THAT(read_file(MeasurementLog::path_of(path, 0)), testing::EndsWith("}\n"));
}

TEST_F(TakeOver, TheLockIsThatOfTheNewWriter) {
  auto old_run = std::make_unique<RunDirectory>(path);
  {
    const std::unique_ptr<RunDirectory> run = take_over_run(path);
    EXPECT_THROW(RunDirectory{path}, ConfigError);
    run->write("config.yaml", "seed: 1\n");
    old_run.reset();
    EXPECT_TRUE(is_training(path));
  }
  EXPECT_FALSE(is_training(path));
}

TEST_F(TakeOver, ARunIsKnownByItsId) {
  const RunDirectory run(path);
  const std::string id = make_run_id(run);
  EXPECT_EQ(make_run_id(run), id);
  EXPECT_TRUE(sees_run(path, id));
  const RunDirectory other(dir.path("other"));
  EXPECT_FALSE(sees_run(dir.path("other"), id));
  EXPECT_NE(make_run_id(other), id);
  EXPECT_FALSE(sees_run(dir.path("other"), id));
  EXPECT_FALSE(sees_run(dir.path("none"), id));
}

TEST_F(TakeOver, ALogWithoutStepsEndsAtZero) {
  const RunDirectory run(path);
  EXPECT_EQ(last_logged_step(path), 0u);
  MeasurementLog(path, 0, 0).append(StartRecord{});
  EXPECT_EQ(last_logged_step(path), 0u);
}

// Stopped while it wrote a checkpoint, or before: it wakes when the new writer has saved more.
TEST(TakenOver, TheOldWriterChangesNoLinkAndNoCopy) {
  SmallRun small;
  const auto save = [&](CheckpointWriter& writer, uint64_t step) {
    TrainState state = small.state(step);
    state.counters.best_loss = {.step = step, .value = 1};
    writer.save(state, small.facts(state));
    return writer.wait()->error;
  };
  const CopyPlace place{parse_copy_target(small.dir.path("copy")), {}};
  const auto writer_of = [&](RunDirectory& run, CheckpointCopier& copier) {
    auto writer =
        std::make_unique<CheckpointWriter>(run, small.model.layout(), small.data.vocabulary, 9);
    writer->use(&copier);
    return writer;
  };
  const auto copied = [](CheckpointCopier& copier) {
    copier.wait([] { return false; });
    return copier.finished();
  };
  RunDirectory old_run(small.options.run);
  old_run.write("config.yaml", "seed: 1\n");
  CheckpointCopier old_copier(old_run, place, "copy");
  const auto old_writer = writer_of(old_run, old_copier);
  EXPECT_EQ(save(*old_writer, 10), "");
  EXPECT_EQ(copied(old_copier)->error, "");
  EXPECT_FALSE(old_run.taken_over());

  const std::unique_ptr<RunDirectory> run = take_over_run(small.options.run);
  EXPECT_TRUE(old_run.taken_over());
  EXPECT_NE(save(*old_writer, 12), "");
  EXPECT_EQ(run->linked("last"), 10u);
  EXPECT_EQ(run->linked("best-loss"), 10u);
  CheckpointCopier copier(*run, place, "copy");
  const auto writer = writer_of(*run, copier);
  EXPECT_EQ(save(*writer, 20), "");
  EXPECT_EQ(copied(copier)->error, "");
  EXPECT_NE(save(*old_writer, 15), "");
  old_copier.copy(10);
  EXPECT_NE(copied(old_copier)->error, "");
  EXPECT_EQ(run->linked("last"), 20u);
  EXPECT_EQ(run->linked("best-loss"), 20u);
  EXPECT_EQ(std::filesystem::read_symlink(small.dir.path("copy/last")), "step-00000020");
}

}  // namespace
}  // namespace reigen
