// Philox against the published test vectors, and the properties dropout relies on.
#include "tensor/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using ::testing::ElementsAre;

TEST(Philox, GivesThePublishedTestVectors) {
  // From the known-answer tests of Random123, philox4x32 with 10 rounds.
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, KeepsSitesStepsSeedsAndTokensApart) {
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
