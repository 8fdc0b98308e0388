// The directory of a run: one trainer at a time, no foreign files, only complete checkpoints.
#include "train/directory/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "support/full_disk.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class F>
std::string config_error_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class RunDirectoryTest : public ::testing::Test {
 protected:
  void write_step(const RunDirectory& run, uint64_t step) {
    small.write(run.checkpoint(step), step);
  }
  std::set<std::string> left() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir.path("run/checkpoints"))) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  TempDir dir;
  std::string path = dir.path("run");
  SmallModel small{tiny_variant("pre")};
};

TEST_F(RunDirectoryTest, IsMadeWithItsParents) {
  const RunDirectory run(dir.path("deep/er/run/"));
  EXPECT_EQ(run.path(), dir.path("deep/er/run"));
  EXPECT_EQ(run.file("log.txt"), dir.path("deep/er/run/log.txt"));
  EXPECT_EQ(run.checkpoint(1000), dir.path("deep/er/run/checkpoints/step-00001000"));
  EXPECT_EQ(run.checkpoint(1'234'567'890), run.file("checkpoints/step-1234567890"));
  EXPECT_THAT(run.checkpoints(), IsEmpty());
}

TEST_F(RunDirectoryTest, IsRemovedWhereNothingWasWritten) {
  { const RunDirectory unused(path); }
  EXPECT_FALSE(path_exists(path));
  {
    const RunDirectory used(path);
    used.write("log.txt", "began\n");
  }
  EXPECT_TRUE(path_exists(path + "/log.txt"));
}

TEST_F(RunDirectoryTest, IsLockedForOneTrainerAtATime) {
  {
    const RunDirectory run(path);
    EXPECT_THAT(config_error_of([&] { RunDirectory second(path); }),
                AllOf(HasSubstr(path), HasSubstr(format("process {}", getpid()))));
  }
  const RunDirectory again(path);  // unlocked by the destructor of the first
}

TEST_F(RunDirectoryTest, IsLockedUntilTheOtherProcessEnds) {
  int ready[2];
  int wait[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(wait), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(wait[1]);
    const RunDirectory run(path);
    char byte = 'x';
    if (write(ready[1], &byte, 1) == 1 && read(wait[0], &byte, 1) >= 0) {
      // The parent closes its end of the pipe.
    }
    std::_Exit(0);  // without the destructor, as a kill would
  }
  close(wait[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(config_error_of([&] { RunDirectory second(path); }),
              HasSubstr(format("(process {})", child)));
  close(wait[1]);
  waitpid(child, nullptr, 0);
  const RunDirectory now(path);
}

TEST_F(RunDirectoryTest, NoticesThatItWasMovedReplacedOrRemoved) {
  RunDirectory run(path);
  run.write("config.yaml", "seed: 1\n");
  EXPECT_EQ(run.moved_to(), std::nullopt);
  fs::rename(path, dir.path("a"));
  EXPECT_EQ(run.moved_to(), dir.path("a"));
  fs::copy(dir.path("a"), path, fs::copy_options::recursive);  // a copy is a different directory
  EXPECT_EQ(run.moved_to(), dir.path("a"));
  fs::remove_all(dir.path("a"));
  EXPECT_EQ(run.moved_to(), "");
}

TEST_F(RunDirectoryTest, NoticesThatAFolderAboveItWasMoved) {
  const RunDirectory run(dir.path("above/run"));
  fs::rename(dir.path("above"), dir.path("elsewhere"));
  EXPECT_EQ(run.moved_to(), dir.path("elsewhere/run"));
}

TEST_F(RunDirectoryTest, FollowsAMoveAndWritesNothingToTheOldPath) {
  RunDirectory run(path);
  run.write("config.yaml", "first\n");
  EXPECT_FALSE(run.moved());
  fs::rename(path, dir.path("moved"));
  EXPECT_TRUE(run.moved());
  run.write("config.yaml", "second\n");  // also before it follows
  EXPECT_EQ(read_file(dir.path("moved/config.yaml")), "second\n");
  testing::internal::CaptureStderr();
  run.follow();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(dir.path("moved")));
  EXPECT_EQ(run.path(), dir.path("moved"));
  EXPECT_EQ(run.moved_to(), std::nullopt);
  EXPECT_TRUE(run.moved());  // it still ends the attempt
  write_step(run, 10);
  EXPECT_THAT(run.checkpoints(), ElementsAre(10));
  EXPECT_FALSE(path_exists(path));
  EXPECT_THAT(config_error_of([&] { RunDirectory second(dir.path("moved")); }),
              HasSubstr(format("process {}", getpid())));
}

TEST_F(RunDirectoryTest, LinksAndPrunesInItsNewPlaceAlsoBeforeItFollows) {
  const RunDirectory run(path);
  for (uint64_t step : {10, 20}) write_step(run, step);
  fs::rename(path, dir.path("moved"));
  fs::copy(dir.path("moved"), path, fs::copy_options::recursive);
  run.link("last", 20);
  run.prune(20, 1, {});
  EXPECT_EQ(run.linked("last"), 20u);
  EXPECT_THAT(run.checkpoints(), ElementsAre(20));
  EXPECT_TRUE(run.has_checkpoint(20));
  EXPECT_FALSE(run.has_checkpoint(10));
  EXPECT_TRUE(path_exists(path + "/checkpoints/step-00000010"));
  EXPECT_FALSE(fs::is_symlink(path + "/last"));
}

TEST_F(RunDirectoryTest, LeavesADirectoryThatTookItsPlaceAlone) {
  {
    const RunDirectory unused(path);
    fs::rename(path, dir.path("moved"));
    fs::create_directories(path + "/checkpoints");
    write_text(path + "/.lock", "");
  }
  EXPECT_TRUE(path_exists(path + "/.lock"));
}

TEST_F(RunDirectoryTest, KnowsWithoutAChangeWhetherAProcessTrainsInIt) {
  check_not_training(path);
  EXPECT_FALSE(path_exists(path));
  const RunDirectory run(path);
  EXPECT_THAT(config_error_of([&] { check_not_training(path); }),
              HasSubstr(format("(process {})", getpid())));
}

TEST_F(RunDirectoryTest, RefusesAFolderThatIsNotARun) {
  fs::create_directory(path);
  write_text(path + "/notes.txt", "mine");
  EXPECT_THAT(config_error_of([&] { RunDirectory run(path); }),
              AllOf(HasSubstr(path), HasSubstr("notes.txt"), HasSubstr("--run")));
  EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 1);
  write_text(path + "/config.yaml", "seed: 1\n");  // a run with notes in it is still a run
  const RunDirectory run(path);
  EXPECT_EQ(read_file(path + "/notes.txt"), "mine");
}

TEST_F(RunDirectoryTest, AcceptsARunThatEndedBeforeItsConfigurationWasWritten) {
  fs::create_directories(path + "/checkpoints");
  write_text(path + "/log.txt", "x");
  write_text(path + "/config.yaml.new", "see");
  const RunDirectory run(path);
  EXPECT_THAT(run.checkpoints(), IsEmpty());
}

TEST_F(RunDirectoryTest, ListsItsCheckpointsByStep) {
  const RunDirectory run(path);
  for (uint64_t step : {1000, 20, 100'000'000, 3}) write_step(run, step);
  for (const char* name : {"step-00000050.partial", "step-", "step-1x", "step-60", "notes",
                           "step-99999999999999999999999", "step-000000070"}) {
    fs::create_directory(run.file(std::string("checkpoints/") + name));
    write_text(run.file(std::string("checkpoints/") + name + "/manifest.json"), "{}");
  }
  EXPECT_THAT(run.checkpoints(), ElementsAre(3, 20, 1000, 100'000'000));
}

TEST_F(RunDirectoryTest, RemovesTheRemnantsOfACrash) {
  {
    const RunDirectory run(path);
    write_step(run, 10);
    write_step(run, 20);
    fs::rename(run.checkpoint(10), run.checkpoint(10) + ".removed");
    fs::create_directory(run.checkpoint(30) + ".partial");
    write_text(run.checkpoint(30) + ".partial.lock", "");
    fs::create_directory(run.file("checkpoints/step-5 of mine"));
    fs::create_directory(run.file("checkpoints/step-5"));
    EXPECT_THAT(run.checkpoints(), ElementsAre(20));
  }
  const RunDirectory run(path);
  EXPECT_EQ(left(), (std::set<std::string>{"step-00000020", "step-5 of mine", "step-5"}));
}

TEST_F(RunDirectoryTest, ListsADamagedCheckpoint) {
  for (const char* name : {"model.safetensors", "SHA256SUMS"}) {
    {
      const RunDirectory run(path);
      fs::remove_all(run.checkpoint(10));
      write_step(run, 10);
      fs::remove(run.checkpoint(10) + "/" + name);
    }
    const RunDirectory run(path);
    EXPECT_THAT(run.checkpoints(), ElementsAre(10)) << name;
    EXPECT_TRUE(path_exists(run.checkpoint(10) + "/optimizer.safetensors"));
  }
}

TEST_F(RunDirectoryTest, PrunesAllButTheLatestAndTheNeeded) {
  const RunDirectory run(path);
  for (uint64_t step : {10, 20, 30, 40, 50}) write_step(run, step);
  run.prune(50, 9, {});
  EXPECT_EQ(run.checkpoints().size(), 5u);
  run.prune(50, 2, {10, 50});
  EXPECT_THAT(run.checkpoints(), ElementsAre(10, 40, 50));
  EXPECT_EQ(left().size(), 3u);
  run.prune(50, 1, {});
  EXPECT_THAT(run.checkpoints(), ElementsAre(50));
}

TEST_F(RunDirectoryTest, PrunesNoneThatIsNewerThanTheOneJustWritten) {
  const RunDirectory run(path);
  for (uint64_t step : {10, 20, 80, 90}) write_step(run, step);  // 80 and 90 are older than 20
  run.prune(20, 1, {});
  EXPECT_THAT(run.checkpoints(), ElementsAre(20, 80, 90));
}

TEST_F(RunDirectoryTest, RenamesADamagedCheckpoint) {
  const RunDirectory run(path);
  write_step(run, 10);
  run.set_aside(10);
  EXPECT_THAT(run.checkpoints(), IsEmpty());
  EXPECT_TRUE(path_exists(run.checkpoint(10) + ".damaged/model.safetensors"));
}

TEST_F(RunDirectoryTest, RefusesALinkInPlaceOfACheckpoint) {
  { write_step(RunDirectory(path), 10); }
  fs::create_directory(dir.path("mine"));
  write_text(dir.path("mine/notes.txt"), "mine");
  fs::create_symlink(dir.path("mine"), path + "/checkpoints/step-00002000");
  EXPECT_THAT(config_error_of([&] { RunDirectory run(path); }), HasSubstr("step-00002000"));
  fs::remove(path + "/checkpoints/step-00002000");
  fs::create_symlink(dir.path("mine"), path + "/checkpoints/step-00002000.partial");
  fs::create_symlink(dir.path("mine"), path + "/checkpoints/step-00002000.removed");
  const RunDirectory run(path);  // removes leftover links, not their targets
  EXPECT_EQ(read_file(dir.path("mine/notes.txt")), "mine");
  EXPECT_FALSE(fs::is_symlink(path + "/checkpoints/step-00002000.partial"));
}

TEST_F(RunDirectoryTest, GivesTheStepOfALink) {
  const RunDirectory run(path);
  EXPECT_EQ(run.linked("last"), std::nullopt);
  write_step(run, 10);
  run.link("last", 10);
  EXPECT_EQ(run.linked("last"), 10u);
}

TEST_F(RunDirectoryTest, PointsALinkToOneCheckpointAfterTheOther) {
  const RunDirectory run(path);
  for (uint64_t step : {10, 20}) {
    write_step(run, step);
    run.link("last", step);
    EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, step);
  }
  EXPECT_EQ(fs::read_symlink(run.file("last")), "checkpoints/step-00000020");
  fs::rename(path, dir.path("moved"));  // links are within the run
  EXPECT_EQ(read_checkpoint_facts(dir.path("moved/last")).step, 20u);
}

TEST_F(RunDirectoryTest, ReplacesALinkThatACrashLeft) {
  const RunDirectory run(path);
  write_step(run, 10);
  fs::create_symlink("nowhere", run.file(".last.new"));
  run.link("last", 10);
  EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, 10u);
  EXPECT_FALSE(fs::is_symlink(run.file(".last.new")));
}

TEST_F(RunDirectoryTest, ReplacesACopiedCheckpointInThePlaceOfALink) {
  const RunDirectory run(path);
  write_step(run, 10);
  write_step(run, 20);
  fs::copy(run.checkpoint(10), run.file("last"), fs::copy_options::recursive);
  run.link("last", 20);
  EXPECT_TRUE(fs::is_symlink(run.file("last")));
  EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, 20u);
  EXPECT_THAT(run.checkpoints(), ElementsAre(10, 20));
}

TEST_F(RunDirectoryTest, DoesNotReplaceAForeignDirectoryByALink) {
  const RunDirectory run(path);
  write_step(run, 10);
  fs::create_directory(run.file("last"));
  write_text(run.file("last/notes.txt"), "mine");
  try {
    run.link("last", 10);
    FAIL() << "expected an error";
  } catch (const IoError& e) {
    EXPECT_EQ(std::string(e.what()), run.file("last") + ": cannot write: Is a directory");
  }
  EXPECT_EQ(read_file(run.file("last/notes.txt")), "mine");
}

TEST_F(RunDirectoryTest, ReplacesASmallFileOrLeavesItAsItWas) {
  const RunDirectory run(path);
  run.write("config.yaml", "first\n");
  run.write("config.yaml", "second\n");
  EXPECT_EQ(read_file(run.file("config.yaml")), "second\n");
  EXPECT_FALSE(path_exists(run.file("config.yaml.new")));
  {
    FullDisk full(3);
    EXPECT_THROW(run.write("config.yaml", "third\n"), IoError);
  }
  EXPECT_EQ(read_file(run.file("config.yaml")), "second\n");
}

TEST_F(RunDirectoryTest, CannotBeMadeWhereAFileIs) {
  write_text(path, "a file");
  EXPECT_THROW(RunDirectory run(path), Error);
  EXPECT_EQ(read_file(path), "a file");
}

TEST_F(RunDirectoryTest, IsRemovedCompletely) {
  {
    const RunDirectory run(path);
    write_step(run, 10);
    run.link("last", 10);
    run.write("config.yaml", "seed: 1\n");
  }
  remove_run(path);
  EXPECT_FALSE(path_exists(path));
  remove_run(path);  // there is none to remove
}

TEST_F(RunDirectoryTest, IsNotRemovedWithForeignFilesOrWhileItTrains) {
  {
    const RunDirectory run(path);
    run.write("config.yaml", "seed: 1\n");
    EXPECT_THAT(config_error_of([&] { remove_run(path); }),
                HasSubstr(format("process {}", getpid())));
  }
  write_text(path + "/notes.txt", "mine");
  EXPECT_THAT(config_error_of([&] { remove_run(path); }),
              AllOf(HasSubstr(path), HasSubstr("notes.txt")));
  EXPECT_EQ(read_file(path + "/notes.txt"), "mine");
}

}  // namespace
}  // namespace reigen
