// Philox against the published test vectors, and the properties dropout relies on.
#include "tensor/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using ::testing::ElementsAre;

TEST(Philox, MatchesThePublishedTestVectors) {
  // From the known-answer tests of Random123, philox4x32 with 7 rounds.
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a));
}

TEST(Philox, DiffersBySiteStepSeedAndToken) {
  RandomSite site{.seed = 1, .step = 2, .site = 3};
  auto draw = [](const RandomSite& s, uint64_t token, uint32_t block) {
    return philox(philox_counter(s, token, block), philox_key(s));
  };
  auto first = draw(site, 4, 5);
  EXPECT_EQ(first, draw(site, 4, 5));
  EXPECT_NE(first, draw({2, 2, 3}, 4, 5));
  EXPECT_NE(first, draw({1, 3, 3}, 4, 5));
  EXPECT_NE(first, draw({1, 2, 4}, 4, 5));
  EXPECT_NE(first, draw(site, 5, 5));
  EXPECT_NE(first, draw(site, uint64_t{4} + (uint64_t{1} << 32), 5));
  EXPECT_NE(first, draw(site, 4, 6));
  EXPECT_NE(first, draw({1, 2 + (uint64_t{1} << 32), 3}, 4, 5));
}

TEST(Philox, RoundsARateToSixteenBits) {
  EXPECT_EQ(drop_threshold(0), 0u);
  EXPECT_EQ(drop_threshold(0.5), 32768u);
  EXPECT_EQ(drop_threshold(0.1F), 6554u);
}

}  // namespace
}  // namespace reigen
