// Products in bf16 on the CPU, by its own instructions and emulated, against products of the
// rounded factors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/backend.h"
#include "ops/cpu/bf16_gemm.h"
#include "ops/cpu/kernels.h"
#include "ops/muon.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::multiply;
using reference::normal;

float round_trip(float x) {
  uint16_t bits = 0;
  cpu::round_to_bf16(&x, &bits, 1);
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// As an operation rounds its factor, in rows with gaps.
Matrix rounded(const Matrix& m) {
  Matrix out = m;
  for (double& v : out.values) v = static_cast<double>(round_trip(static_cast<float>(v)));
  return out;
}

struct Way {
  int threads;
  Bf16By by;
};

class Bf16Products : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().by == Bf16By::kProcessor && !cpu_has_bf16()) {
      GTEST_SKIP() << "this processor has neither AMX nor AVX-512 BF16";
    }
    device_ = Device::cpu(GetParam().threads).with_backend(bf16_cpu_backend(GetParam().by));
  }
  Device device_ = Device::cpu(1);
};
INSTANTIATE_TEST_SUITE_P(Ways, Bf16Products,
                         ::testing::Values(Way{1, Bf16By::kProcessor}, Way{3, Bf16By::kProcessor},
                                           Way{1, Bf16By::kEmulation}, Way{3, Bf16By::kEmulation}),
                         [](const auto& info) {
                           const bool own = info.param.by == Bf16By::kProcessor;
                           return std::string(own ? "Processor" : "Emulated") +
                                  std::to_string(info.param.threads);
                         });

Buffer buffer_of(const Device& device, Matrix m, int64_t stride = 0) {
  return {device, m, DType::kF32, stride};
}

void expect_near(const Buffer& got, const Matrix& wanted, const std::string& what) {
  double squares = 0;
  for (const double v : wanted.values) squares += v * v;
  const double scale = std::sqrt(squares / static_cast<double>(wanted.values.size()));
  const Matrix values = got.values();
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    ASSERT_NEAR(values.values[i], wanted.values[i], 1e-5 * scale) << what << ", element " << i;
  }
}

TEST_P(Bf16Products, AreExactUpToTheRoundingOfTheirFactors) {
  struct Case {
    int64_t rows, inner, cols;
    float alpha, beta;
    int64_t gap;
  };
  for (const auto& [rows, inner, cols, alpha, beta, gap] :
       {Case{40, 72, 24, 1, 0, 0}, Case{333, 64, 96, 1, 1, 0}, Case{33, 7, 19, 1, 1, 0},
        Case{1, 1, 1, 1, 0, 0}, Case{17, 129, 5, 2, 1, 3}, Case{64, 32, 48, 1, 0.5, 8}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Matrix a = ta ? normal(inner, rows, 1) : normal(rows, inner, 1);
        const Matrix b = tb ? normal(cols, inner, 2) : normal(inner, cols, 2);
        const Matrix before = normal(rows, cols, 3);
        const Buffer c = buffer_of(device_, before, cols + gap);
        matmul(device_, buffer_of(device_, a, a.cols + gap).tensor(), Transpose(ta),
               buffer_of(device_, b, b.cols + gap).tensor(), Transpose(tb), c.tensor(), alpha,
               beta);
        Matrix wanted = multiply(rounded(a), ta, rounded(b), tb);
        for (size_t i = 0; i < wanted.values.size(); ++i) {
          wanted.values[i] = wanted.values[i] * static_cast<double>(alpha) +
                             before.values[i] * static_cast<double>(beta);
        }
        expect_near(c, wanted, std::to_string(rows) + (ta ? "'" : "") + (tb ? "x'" : "x"));
      }
    }
  }
}

TEST_P(Bf16Products, AreTheSameTwice) {
  const Buffer a = buffer_of(device_, normal(300, 700, 1));
  const Buffer b = buffer_of(device_, normal(300, 90, 2));
  auto product = [&] {
    const Buffer c = buffer_of(device_, Matrix(700, 90));
    matmul(device_, a.tensor(), Transpose::kYes, b.tensor(), Transpose::kNo, c.tensor(), 1, 1);
    return c.values().values;
  };
  EXPECT_EQ(product(), product());
}

TEST_P(Bf16Products, WorkWithPackedWeights) {
  for (const int64_t gap : {0, 5}) {
    const Matrix x = normal(200, 48, 1), w = normal(70, 48, 2);
    const Buffer fx = buffer_of(device_, x, 48 + gap), fw = buffer_of(device_, w);
    const Buffer y = buffer_of(device_, Matrix(200, 70), 70 + gap);
    const auto packed = pack_weight(device_, fw.tensor());
    EXPECT_EQ(packed != nullptr, GetParam().by == Bf16By::kProcessor);
    linear_forward(device_, fx.tensor(), {fw.tensor(), packed.get()}, y.tensor());
    expect_near(y, multiply(rounded(x), false, rounded(w), true), "packed");
  }
}

TEST_P(Bf16Products, AreThoseOfMuon) {
  const int64_t rows = 96, cols = 200;
  Matrix p = normal(rows, cols, 1, 0.02), m(rows, cols);
  const Matrix g = normal(rows, cols, 2, 1e-4);
  std::vector<float> parameters(p.values.begin(), p.values.end()), momentum(p.values.size());
  const std::vector<float> gradient(g.values.begin(), g.values.end());
  const MatrixRange all{0, rows, cols};
  muon_step(device_, {.rate = 0.1, .momentum = 0.9}, {&all, 1}, gradient, parameters, momentum);
  reference::muon({0.9, 0.01}, 0.1, 1, g, p, m);
  Matrix got(rows, cols);
  got.values.assign(parameters.begin(), parameters.end());
  const double error = relative_error(got, p);
  EXPECT_LE(error, 0.03);
  EXPECT_GE(error, 1e-4);  // rounded to bf16
}

// Kernels of one unit, on one or more threads.
struct KernelCase {
  cpu::Bf16Unit unit;
  int threads;
};

class Bf16KernelCases : public ::testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    if (kernels() == nullptr) GTEST_SKIP() << "this processor does not have it";
  }
  const cpu::Bf16Kernels* kernels() const { return cpu::bf16_kernels(GetParam().unit); }

  Matrix product(const Matrix& a, bool ta, const Matrix& b, bool tb, const Matrix& before,
                 float alpha, float beta, int64_t gap) const {
    const Buffer fa = buffer_of(device_, a, a.cols + gap), fb = buffer_of(device_, b, b.cols + gap);
    const Buffer c = buffer_of(device_, before, before.cols + gap);
    cpu::multiply_bf16(device_, *kernels(),
                       {.a = fa.tensor(),
                        .ta = Transpose(ta),
                        .b = fb.tensor(),
                        .tb = Transpose(tb),
                        .c = c.tensor(),
                        .alpha = alpha,
                        .beta = beta});
    return c.values();
  }

  Device device_ = Device::cpu(GetParam().threads);
};
std::string name_of_case(const ::testing::TestParamInfo<KernelCase>& info) {
  const char* names[] = {"Amx", "Avx512", "EmulatedAmx", "Portable"};
  return names[static_cast<int>(info.param.unit)] + std::to_string(info.param.threads);
}
INSTANTIATE_TEST_SUITE_P(Units, Bf16KernelCases,
                         ::testing::Values(KernelCase{cpu::Bf16Unit::kAmx, 1},
                                           KernelCase{cpu::Bf16Unit::kAmx, 3},
                                           KernelCase{cpu::Bf16Unit::kAvx512, 1},
                                           KernelCase{cpu::Bf16Unit::kAvx512, 3},
                                           KernelCase{cpu::Bf16Unit::kEmulatedAmx, 3},
                                           KernelCase{cpu::Bf16Unit::kPortable, 1}),
                         name_of_case);

// Whole numbers from -7 to 7, whose products and sums are exact.
Matrix integers(int64_t rows, int64_t cols, uint64_t seed) {
  Matrix m = normal(rows, cols, seed);
  for (double& v : m.values) v = std::clamp(std::round(3 * v), -7.0, 7.0);
  return m;
}

TEST_P(Bf16KernelCases, AreExactForWholeNumbersInEveryOrientation) {
  struct Case {
    int64_t rows, inner, cols;
    float alpha, beta;
    int64_t gap;
  };
  for (const auto& [rows, inner, cols, alpha, beta, gap] :
       {Case{1, 1, 1, 1, 0, 0}, Case{64, 64, 64, 1, 0, 0}, Case{64, 96, 32, 1, 1, 0},
        Case{33, 31, 17, 1, 1, 0}, Case{17, 65, 100, 1, 0, 3}, Case{7, 33, 49, 2, 1, 0},
        Case{161, 1100, 80, 1, 1, 5}, Case{70, 530, 300, 4, 0.5, 0}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Matrix a = ta ? integers(inner, rows, 1) : integers(rows, inner, 1);
        const Matrix b = tb ? integers(cols, inner, 2) : integers(inner, cols, 2);
        const Matrix before = integers(rows, cols, 3);
        Matrix wanted = multiply(a, ta, b, tb);
        for (size_t i = 0; i < wanted.values.size(); ++i) {
          wanted.values[i] = wanted.values[i] * static_cast<double>(alpha) +
                             before.values[i] * static_cast<double>(beta);
        }
        EXPECT_EQ(product(a, ta, b, tb, before, alpha, beta, gap).values, wanted.values)
            << rows << " x " << inner << " x " << cols << ", " << ta << tb;
      }
    }
  }
}

TEST_P(Bf16KernelCases, MultiplyAMatrixByItselfByTheUpperTriangle) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{1, 3}, {100, 600}, {33, 16}, {128, 64}}) {
    for (const bool t : {false, true}) {
      const Matrix x = t ? integers(cols, rows, 1) : integers(rows, cols, 1);
      const Buffer c = buffer_of(device_, Matrix(rows, rows), rows + 3);
      const Buffer factor = buffer_of(device_, x, x.cols + 1);
      cpu::gram_bf16(device_, *kernels(), factor.tensor(), Transpose(t), c.tensor());
      EXPECT_EQ(c.values().values, multiply(x, t, x, !t).values) << rows << " x " << cols << t;
    }
  }
}

// What the tile registers compute is emulated to the last bit.
TEST_P(Bf16KernelCases, AreTheSameAsOnePortableThread) {
  const bool tiles = GetParam().unit != cpu::Bf16Unit::kAvx512;
  const Matrix before = normal(100, 70, 3);
  const cpu::Bf16Kernels& portable = *cpu::bf16_kernels(cpu::Bf16Unit::kPortable);
  for (const bool ta : {false, true}) {
    const Matrix a = ta ? normal(600, 100, 1) : normal(100, 600, 1);
    const Matrix b = normal(600, 70, 2);
    const Buffer c = buffer_of(device_, before);
    cpu::multiply_bf16(Device::cpu(1), portable,
                       {.a = buffer_of(device_, a).tensor(),
                        .ta = Transpose(ta),
                        .b = buffer_of(device_, b).tensor(),
                        .c = c.tensor(),
                        .beta = 1});
    device_.use_threads();
    const Matrix got = product(a, ta, b, false, before, 1, 1, 0);
    if (tiles) {
      EXPECT_EQ(got.values, c.values().values);
    }
    expect_near(c, got, "portable");
  }
}

TEST_P(Bf16KernelCases, PackWeights) {
  for (const auto& [rows, in, out] :
       {std::array<int64_t, 3>{1, 600, 70}, {5, 48, 33}, {200, 64, 96}}) {
    const Matrix x = integers(rows, in, 1), w = integers(out, in, 2);
    const Buffer y = buffer_of(device_, Matrix(rows, out), out + 3);
    const cpu::Bf16Weight packed(device_, *kernels(), buffer_of(device_, w, in + 1).tensor());
    packed.multiply(device_, buffer_of(device_, x, in + 2).tensor(), y.tensor());
    EXPECT_EQ(y.values().values, multiply(x, false, w, true).values) << rows;
  }
}

TEST(RoundToBf16, IsTheSameInFp32) {
  const Matrix random = normal(1, 99, 4);
  std::vector<float> from(random.values.begin(), random.values.end());
  from[7] = INFINITY;
  for (const size_t n : {size_t{3}, from.size()}) {
    std::vector<float> wide(n);
    cpu::round_to_bf16(from.data(), wide.data(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(wide[i], round_trip(from[i])) << i;
  }
}

TEST(RoundToBf16, TakesTheNearestAndEvenOnes) {
  for (const auto& [from, to] : {std::pair{1.0F, 1.0F},
                                 {1 + 0x1p-8F, 1.0F},
                                 {1 + 0x1.8p-8F, 1 + 0x1p-7F},
                                 {1 + 3 * 0x1p-8F, 1 + 2 * 0x1p-7F},
                                 {-0.0F, -0.0F},
                                 {3.4e38F, std::numeric_limits<float>::infinity()},
                                 {-INFINITY, -INFINITY}}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(round_trip(from)), std::bit_cast<uint32_t>(to)) << from;
  }
  EXPECT_TRUE(std::isnan(round_trip(NAN)));
  EXPECT_TRUE(std::isnan(round_trip(std::bit_cast<float>(0x7F800001U))));
}

}  // namespace
}  // namespace reigen
