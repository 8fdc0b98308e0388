#include "dist/group/clock_offset.h"

#include <gtest/gtest.h>

#include <chrono>

#include "dist/group/group_fixture.h"

namespace reigen {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST(ClockOffset, IsKnownOnAllRanksWithinItsError) {
  with_group(3, [](Group& group) {
    const auto shifted = [&] { return steady_seconds() + 100.0 * group.rank(); };
    std::vector<ClockOffset> offsets;
    ASSERT_TRUE(measure_clock_offsets(group, shifted, 10, offsets).ok());
    ASSERT_EQ(offsets.size(), 3u);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_NEAR(offsets[rank].seconds, 100.0 * static_cast<double>(rank), offsets[rank].error);
      EXPECT_LT(offsets[rank].error, 1);
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

}  // namespace
}  // namespace reigen
