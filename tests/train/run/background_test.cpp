// Attaching to a run whose process has ended without a record of its end.
#include "train/run/background.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/machine.h"
#include "support/temp_dir.h"

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

TEST(Attach, ALaterProcessWithTheSameNumberIsNotTheRun) {
  TempDir dir;
  write_old_note(dir, getpid());
  EXPECT_THROW(attach(dir.path()), CommError);
}

}  // namespace
}  // namespace reigen
