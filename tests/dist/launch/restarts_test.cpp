// Which failures a job starts again after, and when it gives up.
#include "dist/launch/restarts.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace reigen {
namespace {

LaunchResult lost(std::optional<uint64_t> checkpoint) {
  return {.code = static_cast<int>(ExitCode::kComm), .rank = 1, .checkpoint = checkpoint};
}

TEST(Restarts, AreForLostWorkersAndDevicesOnly) {
  for (int code : {5, 6, 9, 128 + 9, 128 + 11}) EXPECT_TRUE(worth_a_restart(code)) << code;
  for (int code : {0, 1, 2, 3, 4, 7, 8, 130}) EXPECT_FALSE(worth_a_restart(code)) << code;
}

TEST(Restarts, AreCountedOverTheJob) {
  Restarts restarts(2);
  EXPECT_EQ(restarts.after(lost(10)), std::chrono::seconds(1));
  EXPECT_EQ(restarts.left(), 1);
  EXPECT_EQ(restarts.checkpoint(), 10u);
  EXPECT_TRUE(restarts.after(lost(20)));
  EXPECT_FALSE(restarts.after(lost(30)));
  EXPECT_NE(restarts.why_not().find("--restarts 2"), std::string::npos);
}

// The directory of the run is gone: its copy is older than its last checkpoint was.
TEST(Restarts, CountProgressFromACopyThatWasRestored) {
  Restarts restarts(100);
  EXPECT_TRUE(restarts.after(lost(500)));
  for (const uint64_t step : {490, 495, 498, 499}) {
    LaunchResult end = lost(step);
    if (step == 490) end.restored = 480;
    EXPECT_EQ(restarts.after(end), std::chrono::seconds(1));
    EXPECT_EQ(restarts.checkpoint(), step);
  }
}

TEST(Restarts, StartFromTheCopyWhereTheDirectoryIsLost) {
  const auto from = [](std::optional<uint64_t> heard_of, std::optional<uint64_t> found,
                       bool directory, bool copied) {
    return start_from({heard_of, found, directory, copied});
  };
  for (const bool copied : {true, false}) {
    EXPECT_EQ(from({}, {}, true, copied), StartFrom::kDirectory);
    EXPECT_EQ(from({}, 10, true, copied), StartFrom::kDirectory);
    EXPECT_EQ(from(10, 10, true, copied), StartFrom::kDirectory);
    EXPECT_EQ(from(10, 20, true, copied), StartFrom::kDirectory);
    const StartFrom lost = copied ? StartFrom::kCopy : StartFrom::kNothing;
    EXPECT_EQ(from(20, {}, false, copied), lost);
    EXPECT_EQ(from(20, {}, true, copied), lost);
    EXPECT_EQ(from(20, 10, true, copied), lost);
  }
  EXPECT_EQ(from({}, {}, false, true), StartFrom::kAnyCopy);
  EXPECT_EQ(from({}, {}, false, false), StartFrom::kDirectory);
}

TEST(Restarts, NeedACheckpointBetweenThem) {
  Restarts restarts(100);
  EXPECT_TRUE(restarts.after(lost(10)));
  EXPECT_TRUE(restarts.after(lost(10)));
  EXPECT_TRUE(restarts.after(lost(10)));
  EXPECT_FALSE(restarts.after(lost(10)));
  EXPECT_NE(restarts.why_not().find("step 10"), std::string::npos);

  Restarts from_nothing(100);
  EXPECT_TRUE(from_nothing.after(lost(std::nullopt)));
  EXPECT_TRUE(from_nothing.after(lost(std::nullopt)));
  EXPECT_FALSE(from_nothing.after(lost(std::nullopt)));
}

// Their workers may be the ones that continue.
TEST(Restarts, AreNotBesideAJobThatMayStillLive) {
  Restarts restarts(3);
  LaunchResult end = lost(10);
  end.unseen = {"vm2", "vm3"};
  EXPECT_FALSE(restarts.after(end));
  EXPECT_NE(restarts.why_not().find("vm2, vm3"), std::string::npos);
  EXPECT_EQ(restarts.used(), 0);
}

TEST(Restarts, PauseLongerEachTimeUntilACheckpoint) {
  Restarts restarts(100);
  LaunchResult no_host = lost(std::nullopt);
  no_host.started = false;  // a job that waits for its hosts is no job without progress
  int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const auto pause = restarts.after(no_host);
    ASSERT_TRUE(pause);
    EXPECT_GE(pause->count(), before);
    before = pause->count();
  }
  EXPECT_EQ(before, 300);
  EXPECT_EQ(restarts.after(lost(5)), std::chrono::seconds(1));
}

TEST(Restarts, NoneWithoutTheOption) {
  Restarts restarts(0);
  EXPECT_FALSE(restarts.after(lost(10)));
  EXPECT_EQ(restarts.why_not(), "");
}

TEST(Restarts, AreToldToRankZero) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : restart_environment({3, "rank 1: was killed"})) {
    const size_t equals = entry.find('=');
    variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  auto environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(restart_facts(environment).number, 3u);
  EXPECT_EQ(restart_facts(environment).cause, "rank 1: was killed");
  variables.clear();
  EXPECT_EQ(restart_facts(environment).number, 0u);
}

}  // namespace
}  // namespace reigen
