// The request of `train --decay-now`.
#include "train/directory/decay_request.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "support/temp_dir.h"
#include "train/small_run.h"

namespace reigen {
namespace {

TEST(DecayRequest, ReadsBackUntilItIsRemoved) {
  const TempDir dir;
  EXPECT_EQ(decay_request(dir.path()), 0u);
  request_decay(dir.path(), 500);
  EXPECT_EQ(decay_request(dir.path()), 500u);
  request_decay(dir.path(), 70);
  EXPECT_EQ(decay_request(dir.path()), 70u);
  remove_decay_request(dir.path());
  EXPECT_EQ(decay_request(dir.path()), 0u);
}

TEST(DecayRequest, OfADifferentFormIsRemoved) {
  for (const char* text : {"", "0\n", "-3", "ten", "5 steps", "99999999999999999999"}) {
    const TempDir dir;
    write_text(dir.path("decay-now"), text);
    EXPECT_EQ(decay_request(dir.path()), 0u) << text;
    EXPECT_FALSE(path_exists(dir.path("decay-now"))) << text;
  }
}

TEST(DecayRequest, IsNotReadThroughALink) {
  const TempDir dir;
  write_text(dir.path("other"), "5\n");
  std::filesystem::create_symlink(dir.path("other"), dir.path("decay-now"));
  EXPECT_EQ(decay_request(dir.path()), 0u);
  EXPECT_FALSE(std::filesystem::is_symlink(dir.path("decay-now")));
  EXPECT_TRUE(path_exists(dir.path("other")));
}

TEST(DecayRequest, AFolderInItsPlaceIsNoRequestAndStays) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("decay-now/x"));
  EXPECT_EQ(decay_request(dir.path()), 0u);
  testing::internal::CaptureStderr();
  EXPECT_EQ(decay_request(dir.path()), 0u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // reported once
  EXPECT_TRUE(path_exists(dir.path("decay-now/x")));
}

TEST(DecayRequest, NeedsARunThatHasBegun) {
  const TempDir dir;
  EXPECT_THROW(check_can_decay(dir.path(), 5, 0), ConfigError);
  write_text(dir.path("last"), "");
  EXPECT_NO_THROW(check_can_decay(dir.path(), 5, 0));
}

TEST(DecayRequest, IsRefusedWhileAnotherWaits) {
  const TempDir dir;
  EXPECT_NO_THROW(check_can_request(dir.path(), 5));
  request_decay(dir.path(), 500);
  EXPECT_THROW(check_can_request(dir.path(), 5), ConfigError);
}

TEST(DecayRequest, IsRefusedOnceTheLastCheckpointRecordsADecay) {
  const SmallRun small;
  const std::string run = small.dir.path("decayed");
  TrainState state = small.state(12);
  small.write(state, run + "/last");
  EXPECT_NO_THROW(check_can_decay(run, 5, 40));
  EXPECT_NO_THROW(check_can_request(run, 5));
  state.choices.decay = {10, 6};
  state.choices.decay_limit = 40;
  std::filesystem::remove_all(run);
  small.write(state, run + "/last");
  EXPECT_THROW(check_can_decay(run, 5, 40), ConfigError);
  EXPECT_THROW(check_can_request(run, 5), ConfigError);
  EXPECT_NO_THROW(check_can_decay(run, 5, 50));  // a new limit cancels the decay
}

}  // namespace
}  // namespace reigen
