// Numbers in text, with edge cases where rounding adds a digit.
#include "base/format.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace reigen {
namespace {

TEST(WithCommas, GroupsByThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(4'524'868), "4,524,868");
  EXPECT_EQ(with_commas(100'000), "100,000");
  EXPECT_EQ(with_commas(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(HumanBytes, CountsInDecimalUnitsLikeDisksAndNetworks) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(1'880'000'000), "1.88 GB");
  EXPECT_EQ(human_bytes(365'000'000), "365 MB");
  EXPECT_EQ(human_bytes(12'500'000), "12.5 MB");
  EXPECT_EQ(human_bytes(2'000'000'000'000), "2.00 TB");
}

TEST(HumanBytes, ShowsThreeDigitsAlsoIfRoundingCarries) {
  EXPECT_EQ(human_bytes(9'994), "9.99 kB");
  EXPECT_EQ(human_bytes(9'999), "10.0 kB");
  EXPECT_EQ(human_bytes(99'940), "99.9 kB");
  EXPECT_EQ(human_bytes(99'990), "100 kB");
  EXPECT_EQ(human_bytes(999'400), "999 kB");
  EXPECT_EQ(human_bytes(999'999), "1.00 MB");
}

TEST(HumanBytes, UsesPetabytesAboveTheLargestUnit) {
  EXPECT_EQ(human_bytes(UINT64_MAX), "18447 PB");
}

TEST(HumanSeconds, ChoosesTheUnitByLength) {
  EXPECT_EQ(human_seconds(0.0184), "18.4 ms");
  EXPECT_EQ(human_seconds(0.42), "0.42 s");
  EXPECT_EQ(human_seconds(1.27), "1.3 s");
  EXPECT_EQ(human_seconds(30), "30.0 s");
  EXPECT_EQ(human_seconds(65), "1m 05s");
  EXPECT_EQ(human_seconds(7380), "2h 03m");
  EXPECT_EQ(human_seconds(28 * 3600.0), "28h 00m");
}

TEST(HumanSeconds, MovesToTheNextUnitIfRoundingCarries) {
  EXPECT_EQ(human_seconds(0.994), "0.99 s");
  EXPECT_EQ(human_seconds(0.999), "1.0 s");
  EXPECT_EQ(human_seconds(59.94), "59.9 s");
  EXPECT_EQ(human_seconds(59.96), "1m 00s");
  EXPECT_EQ(human_seconds(3599.4), "59m 59s");
  EXPECT_EQ(human_seconds(3599.6), "1h 00m");
}

TEST(Counted, HasTheSingularForOneAndThePluralForMany) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "evaluation"), "1 evaluation");
  EXPECT_EQ(counted(4096, "sentence"), "4,096 sentences");
}

TEST(HumanFlops, ChoosesTheUnitBySize) {
  EXPECT_EQ(human_flops(0), "0.00 MFLOP/s");
  EXPECT_EQ(human_flops(2.5e6), "2.50 MFLOP/s");
  EXPECT_EQ(human_flops(87.26e9), "87.3 GFLOP/s");
  EXPECT_EQ(human_flops(381482.1e9), "381 TFLOP/s");
  EXPECT_EQ(human_flops(999.6e9), "1.00 TFLOP/s");
}

TEST(Percent, OfZeroIsZero) {
  EXPECT_EQ(percent(0, 0), "0.0%");
  EXPECT_EQ(percent(123, 1000), "12.3%");
  EXPECT_EQ(percent(7, 7), "100.0%");
}

}  // namespace
}  // namespace reigen
