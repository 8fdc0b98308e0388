// Rounding to bf16 and fp16, value by value, against the definition of each format.
#include "dist/wire_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace reigen {
namespace {

std::vector<uint16_t> bits_of(Wire wire, const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  to_wire(wire, values, reinterpret_cast<std::byte*>(bits.data()));
  return bits;
}

// Long enough for the fast path and with a rest for the plain one.
float one_way(Wire wire, float value, size_t count, size_t at) {
  std::vector<float> values(count, 1.0f);
  values[at] = value;
  const auto bits = bits_of(wire, values);
  std::vector<float> back(count);
  from_wire(wire, reinterpret_cast<const std::byte*>(bits.data()), back);
  return back[at];
}

float there_and_back(Wire wire, float value) {
  const float fast = one_way(wire, value, 11, 3);
  const float plain = one_way(wire, value, 11, 10);
  EXPECT_TRUE(fast == plain || (std::isnan(fast) && std::isnan(plain))) << value;
  return plain;
}

TEST(WireFormat, EveryValueOfTheFormatSurvives) {
  for (Wire wire : {Wire::kBf16, Wire::kFp16}) {
    std::vector<uint16_t> all(1 << 16);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    std::vector<float> values(all.size());
    from_wire(wire, reinterpret_cast<const std::byte*>(all.data()), values);
    const auto back = bits_of(wire, values);
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(values[i])) {
        std::vector<float> again(1);
        from_wire(wire, reinterpret_cast<const std::byte*>(&back[i]), again);
        ASSERT_TRUE(std::isnan(again[0])) << i;
      } else {
        ASSERT_EQ(back[i], all[i]) << values[i];
      }
    }
  }
}

TEST(WireFormat, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(there_and_back(Wire::kBf16, 1 + 0x1p-8f), 1.0f);
  EXPECT_EQ(there_and_back(Wire::kBf16, 1 + 3 * 0x1p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(there_and_back(Wire::kBf16, 1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(there_and_back(Wire::kFp16, 1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(there_and_back(Wire::kFp16, 1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(there_and_back(Wire::kFp16, -(1 + 0x1p-11f + 0x1p-20f)), -(1 + 0x1p-10f));
  EXPECT_EQ(there_and_back(Wire::kFp16, 3 * 0x1p-25f), 0x1p-23f);  // among the smallest
  EXPECT_EQ(there_and_back(Wire::kFp16, 0x1p-25f), 0.0f);
}

TEST(WireFormat, TooLargeIsInfiniteAndNoNumberStaysNone) {
  EXPECT_EQ(there_and_back(Wire::kFp16, 65'504.0f), 65'504.0f);
  EXPECT_EQ(there_and_back(Wire::kFp16, 65'519.0f), 65'504.0f);
  EXPECT_EQ(there_and_back(Wire::kFp16, 65'520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(there_and_back(Wire::kFp16, -1e9f), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(there_and_back(Wire::kBf16, std::numeric_limits<float>::max()),
            std::numeric_limits<float>::infinity());
  for (Wire wire : {Wire::kBf16, Wire::kFp16}) {
    EXPECT_TRUE(std::isnan(there_and_back(wire, std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(there_and_back(wire, std::bit_cast<float>(0x7F800001u))));
    EXPECT_EQ(there_and_back(wire, std::numeric_limits<float>::infinity()),
              std::numeric_limits<float>::infinity());
  }
}

TEST(WireFormat, AddingIsThatOfTheRoundedValues) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(3001);
  for (float& value : values) value = normal(random);
  for (Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16}) {
    std::vector<std::byte> bytes(values.size() * wire_bytes(wire));
    to_wire(wire, values, bytes.data());
    std::vector<float> rounded(values.size());
    from_wire(wire, bytes.data(), rounded);
    std::vector<float> sum(values.size(), 0.25f);
    add_from_wire(wire, bytes.data(), sum);
    for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], 0.25f + rounded[i]);
  }
}

}  // namespace
}  // namespace reigen
