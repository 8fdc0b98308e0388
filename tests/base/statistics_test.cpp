#include "base/statistics.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Median, OfAnOddNumberIsTheMiddleValueInAnyOrder) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 4}), 4);
}

TEST(Median, OfAnEvenNumberIsTheMeanOfTheMiddleTwo) { EXPECT_EQ(median({8, 1, 2, 4}), 3); }

TEST(Median, OfNoValuesIsZero) { EXPECT_EQ(median({}), 0); }

}  // namespace
}  // namespace reigen
