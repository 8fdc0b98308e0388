// The set of seen pairs, compared with a standard set through several growths.
#include "data/prepare/pair_set.h"

#include <gtest/gtest.h>

#include <set>

namespace reigen {
namespace {

TEST(PairSet, AgreesWithAStandardSetAlsoForTheHashThatMarksFreeSlots) {
  PairSet set;
  std::set<std::pair<uint64_t, uint64_t>> plain;
  EXPECT_FALSE(set.contains({0, 0}));
  EXPECT_TRUE(set.insert({0, 0}));
  EXPECT_FALSE(set.insert({0, 0}));
  for (uint64_t i = 0; i < 20'000; ++i) {
    // Many share their low bits, so that slots collide.
    Hash128 hash{mix64(i % 7'000) << 8, i % 9'001};
    bool fresh = plain.insert({hash.low, hash.high}).second;
    EXPECT_EQ(set.contains(hash), !fresh);
    EXPECT_EQ(set.insert(hash), fresh);
  }
  EXPECT_EQ(set.size(), plain.size() + 1);
  EXPECT_FALSE(set.contains({mix64(99'999), 5}));
}

}  // namespace
}  // namespace reigen
