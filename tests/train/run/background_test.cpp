// Attaching to a run whose process has ended without a record of its end, and a second --detach.
#include "train/run/background.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/json/json.h"
#include "base/machine.h"
#include "support/temp_dir.h"
#include "train/directory/run_directory.h"

namespace reigen {
namespace {

// A run that was started in the background an hour ago, as process `process` of this host.
void write_old_note(const TempDir& dir, int64_t process) {
  write_text(dir.path("console.log"), "");
  write_text(dir.path("background.json"), pretty({{"process", process}, {"host", host_name()}}));
  std::filesystem::last_write_time(
      dir.path("background.json"),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

TEST(Attach, AProcessThatHasEndedIsAnError) {
  TempDir dir;
  write_old_note(dir, 1 << 30);  // above every pid_max
  EXPECT_THROW(attach(dir.path()), CommError);
}

TEST(Attach, AProcessThatIsNoTrainingIsNotTheRun) {
  TempDir dir;
  write_old_note(dir, 1);  // older than any note
  EXPECT_THROW(attach(dir.path()), CommError);
}

TEST(Attach, AProcessIsKnownByItsStart) {
  TempDir dir;
  write_text(dir.path("console.log"), "");
  Json note = {{"process", getpid()},
               {"host", host_name()},
               {"identity", process_identity(static_cast<uint64_t>(getpid())) + "0"}};
  write_text(dir.path("background.json"), pretty(note));
  EXPECT_THROW(attach(dir.path()), CommError);
}

TEST(Attach, ASilentProcessOfADifferentHostIsNotWaitedFor) {
  TempDir dir;
  write_text(dir.path("console.log"), "");
  write_text(dir.path("background.json"), pretty({{"process", 1}, {"host", "elsewhere"}}));
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* name : {"console.log", "background.json"}) {
    std::filesystem::last_write_time(dir.path(name), old);
  }
  EXPECT_THROW(attach(dir.path()), CommError);
}

TEST(Attach, ADamagedNoteIsAnErrorThatNamesIt) {
  for (const char* text :
       {"", "{", "[]", "7", "{\"process\": 7}", "{\"process\": \"x\", \"host\": \"h\"}",
        "{\"process\": 1, \"host\": \"h\", \"code\": \"x\"}",
        "{\"process\": 1, \"host\": \"h\", \"identity\": []}"}) {
    TempDir dir;
    write_text(dir.path("background.json"), text);
    try {
      attach(dir.path());
      ADD_FAILURE() << text;
    } catch (const DataError& e) {
      EXPECT_NE(std::string(e.what()).find(dir.path("background.json")), std::string::npos) << text;
    }
  }
}

TEST(Attach, ANoteThatIsNoFileIsAnError) {
  TempDir dir;
  ASSERT_EQ(mkfifo(dir.path("background.json").c_str(), 0600), 0);
  EXPECT_THROW(attach(dir.path()), DataError);
}

TEST(RunInBackground, ChangesNoFileWhileAProcessTrainsInTheRun) {
  TempDir dir;
  const std::string run = dir.path("run");
  const RunDirectory trains(run);
  EXPECT_THROW(run_in_background(run, [] {}), ConfigError);
  EXPECT_FALSE(path_exists(run + "/console.log"));
  write_text(run + "/console.log", "output\n");
  write_text(run + "/background.json", "note");
  EXPECT_THROW(run_in_background(run, [] {}), ConfigError);
  EXPECT_EQ(read_file(run + "/console.log"), "output\n");
  EXPECT_EQ(read_file(run + "/background.json"), "note");
}

TEST(RunInBackground, ChangesNoFileWhileAProcessStartsInTheRun) {
  TempDir dir;
  write_text(dir.path("console.log"), "output\n");
  write_text(dir.path("background.json"), pretty({{"process", 77}, {"host", "h"}}));
  const int console = open(dir.path("console.log").c_str(), O_RDONLY);
  ASSERT_EQ(flock(console, LOCK_EX | LOCK_NB), 0);  // as the process that has it as its output
  try {
    run_in_background(dir.path(), [] {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("process 77"), std::string::npos) << e.what();
  }
  EXPECT_EQ(read_file(dir.path("console.log")), "output\n");
  EXPECT_TRUE(path_exists(dir.path("background.json")));
  close(console);
}

TEST(Attach, ALaterProcessWithTheSameNumberIsNotTheRun) {
  TempDir dir;
  write_old_note(dir, getpid());
  EXPECT_THROW(attach(dir.path()), CommError);
}

}  // namespace
}  // namespace reigen
