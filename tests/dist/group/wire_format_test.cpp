// Rounding to bf16 and fp16, value by value, against the definition of each format.
#include "dist/group/wire_format.h"

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

// Long enough for the vector path, with a remainder for the plain one.
float decoded_at(Wire wire, float value, size_t count, size_t at) {
  std::vector<float> values(count, 1.0f);
  values[at] = value;
  const auto bits = bits_of(wire, values);
  std::vector<float> back(count);
  from_wire(wire, reinterpret_cast<const std::byte*>(bits.data()), back);
  return back[at];
}

float round_trip(Wire wire, float value) {
  const float fast = decoded_at(wire, value, 11, 3);
  const float plain = decoded_at(wire, value, 11, 10);
  EXPECT_TRUE(fast == plain || (std::isnan(fast) && std::isnan(plain))) << value;
  return plain;
}

TEST(WireFormat, EveryValueOfTheFormatIsPreserved) {
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
  EXPECT_EQ(round_trip(Wire::kBf16, 1 + 0x1p-8f), 1.0f);
  EXPECT_EQ(round_trip(Wire::kBf16, 1 + 3 * 0x1p-8f), 1 + 0x1p-6f);
  EXPECT_EQ(round_trip(Wire::kBf16, 1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(round_trip(Wire::kFp16, 1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(round_trip(Wire::kFp16, 1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(round_trip(Wire::kFp16, -(1 + 0x1p-11f + 0x1p-20f)), -(1 + 0x1p-10f));
  EXPECT_EQ(round_trip(Wire::kFp16, 3 * 0x1p-25f), 0x1p-23f);  // subnormal
  EXPECT_EQ(round_trip(Wire::kFp16, 0x1p-25f), 0.0f);
}

TEST(WireFormat, OverflowIsInfiniteAndNanStaysNan) {
  EXPECT_EQ(round_trip(Wire::kFp16, 65'504.0f), 65'504.0f);
  EXPECT_EQ(round_trip(Wire::kFp16, 65'519.0f), 65'504.0f);
  EXPECT_EQ(round_trip(Wire::kFp16, 65'520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_trip(Wire::kFp16, -1e9f), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_trip(Wire::kBf16, std::numeric_limits<float>::max()),
            std::numeric_limits<float>::infinity());
  for (Wire wire : {Wire::kBf16, Wire::kFp16}) {
    EXPECT_TRUE(std::isnan(round_trip(wire, std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(round_trip(wire, std::bit_cast<float>(0x7F800001u))));
    EXPECT_EQ(round_trip(wire, std::numeric_limits<float>::infinity()),
              std::numeric_limits<float>::infinity());
  }
}

TEST(WireFormat, AddFromWireAddsTheDecodedValues) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(3001);
  for (float& value : values) value = normal(random);
  for (Wire wire : {Wire::kFp32, Wire::kBf16, Wire::kFp16}) {
    std::vector<std::byte> bytes(wire_bytes(wire, values.size()));
    to_wire(wire, values, bytes.data());
    std::vector<float> rounded(values.size());
    from_wire(wire, bytes.data(), rounded);
    std::vector<float> sum(values.size(), 0.25f);
    add_from_wire(wire, bytes.data(), sum);
    for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], 0.25f + rounded[i]);
  }
}

TEST(WireFormat, QuantisationErrorIsAtMostHalfAStepOfTheBlock) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto& [wire, most] : {std::pair(Wire::kInt8, 127), std::pair(Wire::kInt4, 7)}) {
    for (const size_t count : {1, 63, 64, 65, 1000}) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) {
        values[i] = normal(random) * std::exp2(static_cast<float>(i / 64 % 9) * 8 - 32);
      }
      std::vector<std::byte> bytes(wire_bytes(wire, count));
      to_wire(wire, values, bytes.data());
      std::vector<float> back(count);
      from_wire(wire, bytes.data(), back);
      for (size_t i = 0; i < count; ++i) {
        float largest = 0;
        for (size_t j = i / 64 * 64; j < std::min(count, i / 64 * 64 + 64); ++j) {
          largest = std::max(largest, std::abs(values[j]));
        }
        const float unit = largest / static_cast<float>(most) * (1 + 0x1p-7F);
        ASSERT_LE(std::abs(back[i] - values[i]), unit / 2 * (1 + 0x1p-20F)) << count << " " << i;
      }
    }
  }
  EXPECT_EQ(wire_bytes(Wire::kInt4, 64), 34U);
  EXPECT_EQ(wire_bytes(Wire::kInt8, 128), 132U);
}

TEST(WireFormat, NonFiniteValuesSpoilTheirBlockOnlyAndZerosStayZero) {
  for (const Wire wire : {Wire::kInt8, Wire::kInt4}) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> values(192, 0.5F);
      std::fill(values.begin() + 64, values.begin() + 128, 0.0F);
      values[130] = bad;
      std::vector<std::byte> bytes(wire_bytes(wire, values.size()));
      to_wire(wire, values, bytes.data());
      std::vector<float> back(values.size());
      from_wire(wire, bytes.data(), back);
      EXPECT_NEAR(back[0], 0.5F, 0x1p-8F);
      EXPECT_EQ(back[64], 0.0F);
      EXPECT_FALSE(std::isfinite(back[130]));
    }
    std::vector<float> tiny(64, 1e-42F);
    std::vector<std::byte> bytes(wire_bytes(wire, tiny.size()));
    to_wire(wire, tiny, bytes.data());
    from_wire(wire, bytes.data(), tiny);
    EXPECT_EQ(tiny[0], 0.0F);
  }
}

}  // namespace
}  // namespace reigen
