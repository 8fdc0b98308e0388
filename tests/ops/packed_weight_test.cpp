// Products with weights in the backend's own forms: fp32 in the library's layout, and int8.
#include "ops/packed_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/cpu/int8_weight.h"
#include "ops/matmul.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::multiply;
using reference::normal;

struct Size {
  int64_t rows, in, out;
};
const std::vector<Size> kSizes = {
    {1, 16, 24}, {4, 72, 40}, {6, 50, 33}, {33, 7, 19}, {300, 64, 2100}};

TEST_P(Ops, APackedWeightMultipliesLikeTheMatrix) {
  for (const auto& [rows, in, out] : kSizes) {
    Matrix x = normal(rows, in, 1), w = normal(out, in, 2);
    Buffer fw = typed(w);
    const auto packed = pack_weight(device(), fw.tensor());
    if (packed == nullptr) GTEST_SKIP() << "no packed weights here";
    for (const int64_t gap : {0, 3}) {
      Buffer fx = typed(x, in + gap), y = empty(rows, out, out + gap);
      linear_forward(device(), fx.tensor(), {fw.tensor(), packed.get()}, y.tensor());
      expect_close(y, multiply(x, false, w, true), GetParam().in_products, "y");
    }
  }
}

// A weight in int8 with its scales, and the matrix that it stands for.
struct Rounded {
  Rounded(int64_t rows, int64_t cols) : scales(static_cast<size_t>(rows)), exact(rows, cols) {
    const Matrix random = normal(rows, cols, 5);
    for (int64_t r = 0; r < rows; ++r) {
      scales[static_cast<size_t>(r)] = 0.01F + 0.001F * static_cast<float>(r % 7);
      for (int64_t c = 0; c < cols; ++c) {
        const double wanted = std::round(random.at(r, c) * 40);
        values.push_back(static_cast<int8_t>(std::min(127.0, std::max(-127.0, wanted))));
        exact.at(r, c) = values.back() * static_cast<double>(scales[static_cast<size_t>(r)]);
      }
    }
  }
  Int8Matrix matrix() const { return {values.data(), scales.data(), exact.rows, exact.cols}; }

  std::vector<int8_t> values;
  std::vector<float> scales;
  Matrix exact;
};

std::vector<float> product(const Device& device, const cpu::Int8Weight& weight,
                           std::vector<float>& x, int64_t rows, int64_t out) {
  std::vector<float> y(static_cast<size_t>(rows * out), NAN);
  const auto in = static_cast<int64_t>(x.size()) / rows;
  weight.multiply(device, f32_matrix(x.data(), rows, in), f32_matrix(y.data(), rows, out));
  return y;
}

std::vector<float> normal_floats(int64_t rows, int64_t cols, uint64_t seed) {
  const Matrix m = normal(rows, cols, seed);
  return {m.values.begin(), m.values.end()};
}

TEST(Int8Weight, MultipliesUpToTheRoundingOfX) {
  for (const auto& [rows, in, out] : kSizes) {
    const Rounded weight(out, in);
    std::vector<float> x = normal_floats(rows, in, 1);
    const Device device = Device::cpu(2);
    const auto y = product(device, cpu::Int8Weight(weight.matrix()), x, rows, out);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * in;
      const auto [least, most] = std::minmax_element(row, row + in);
      const double step = (std::max(0.0F, *most) - std::min(0.0F, *least)) / 255.0;
      for (int64_t c = 0; c < out; ++c) {
        double wanted = 0;
        double allowed = 1e-5;
        for (int64_t i = 0; i < in; ++i) {
          wanted += row[i] * weight.exact.at(c, i);
          allowed += step * std::abs(weight.exact.at(c, i));  // half a step each, and the zero's
        }
        ASSERT_NEAR(y[static_cast<size_t>(r * out + c)], wanted, allowed) << r << ", " << c;
      }
    }
  }
}

struct Way {
  cpu::Int8By by;
  const char* name;
};

class Int8Ways : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const Rounded weight(1, 8);
    if (cpu::Int8Weight(weight.matrix(), GetParam().by).by() != GetParam().by) {
      GTEST_SKIP() << "this processor has no instructions for it";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, Int8Ways,
                         ::testing::Values(Way{cpu::Int8By::kLibrary, "Library"},
                                           Way{cpu::Int8By::kI8mm, "I8mm"},
                                           Way{cpu::Int8By::kDot, "Dot"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Int8Ways, GiveTheSameAsTheKernelForEveryProcessor) {
  for (const auto& [rows, in, out] : kSizes) {
    const Rounded weight(out, in);
    std::vector<float> x = normal_floats(rows, in, 1);
    for (const int threads : {1, 2}) {
      const Device device = Device::cpu(threads);
      const cpu::Int8Weight fast(weight.matrix(), GetParam().by);
      const cpu::Int8Weight plain(weight.matrix(), cpu::Int8By::kAnyProcessor);
      EXPECT_EQ(product(device, fast, x, rows, out), product(device, plain, x, rows, out));
    }
  }
}

TEST(Int8Weight, GivesARowTheSameResultWhateverTheOthersAre) {
  const int64_t rows = 9, in = 40, out = 30;
  const Rounded weight(out, in);
  const cpu::Int8Weight int8(weight.matrix());
  const Device device = Device::cpu(1);
  std::vector<float> x = normal_floats(rows, in, 1);
  for (int64_t i = 0; i < in; ++i) x[static_cast<size_t>(i)] *= 1000;  // row 0
  const auto together = product(device, int8, x, rows, out);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> one(x.begin() + r * in, x.begin() + (r + 1) * in);
    const auto alone = product(device, int8, one, 1, out);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * out)) << r;
  }
}

TEST(Int8Weight, ReachesTheLimitsOfItsSums) {
  const int64_t in = 4096;
  std::vector<int8_t> values(static_cast<size_t>(in), -128);  // as a hostile file may have
  const float scale = 1;
  std::vector<float> x(static_cast<size_t>(in), 255);
  for (const auto by :
       {cpu::Int8By::kLibrary, cpu::Int8By::kI8mm, cpu::Int8By::kDot, cpu::Int8By::kAnyProcessor}) {
    const cpu::Int8Weight weight({values.data(), &scale, 1, in}, by);
    EXPECT_EQ(product(Device::cpu(1), weight, x, 1, 1)[0], -128.0F * 255 * in);
  }
}

TEST(Int8Weight, AProductOfZerosIsZeroAndOneOfNonFiniteValuesIsNotFinite) {
  const Rounded weight(3, 4);
  const cpu::Int8Weight int8(weight.matrix());
  const Device device = Device::cpu(1);
  std::vector<float> zeros(4);
  EXPECT_EQ(product(device, int8, zeros, 1, 3), std::vector<float>(3));
  for (const float bad : {NAN, std::numeric_limits<float>::infinity(), 3e38F}) {
    std::vector<float> x = {1, bad, -bad, 2};
    for (const float y : product(device, int8, x, 1, 3)) EXPECT_FALSE(std::isfinite(y)) << bad;
  }
}

}  // namespace
}  // namespace reigen
