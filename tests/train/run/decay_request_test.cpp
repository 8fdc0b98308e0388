// The request of `train --decay-now`.
#include "train/run/decay_request.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "support/temp_dir.h"

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

TEST(DecayRequest, NeedsARunThatHasBegun) {
  const TempDir dir;
  EXPECT_THROW(check_can_decay(dir.path(), 5), ConfigError);
  write_text(dir.path("last"), "");
  EXPECT_NO_THROW(check_can_decay(dir.path(), 5));
}

}  // namespace
}  // namespace reigen
