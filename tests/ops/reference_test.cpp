// The gradients of the reference against finite differences of its forward passes.
#include "ops/reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reigen::reference {
namespace {

constexpr double kTolerance = 1e-8;  // of central differences

Dropout dropout_of(const std::vector<uint64_t>& numbers) {
  return {0.3F, {.seed = 7, .step = 17, .site = 5}, numbers.data()};
}

TEST(Reference, GradientOfResidualNorm) {
  const std::vector<uint64_t> numbers = {5, 99, 7, 1234567};
  const Dropout drop = dropout_of(numbers);
  const Matrix x = normal(4, 9, 1), branch = normal(4, 9, 2), bias = normal(1, 9, 3);
  const Matrix gain = normal(1, 9, 4), shift = normal(1, 9, 5);
  const Matrix wn = normal(4, 9, 6), wh = normal(4, 9, 7);
  auto scalar = [&](const Matrix& xx, const Matrix& br, const Matrix& bi, const Matrix& g,
                    const Matrix& s) {
    const Normed out = residual_norm(xx, &br, &bi, g, s, drop);
    return weighted(out.n, wn) + weighted(out.h, wh);
  };
  const Matrix h = residual_norm(x, &branch, &bias, gain, shift, drop).h;
  const NormGradients got = residual_norm_gradients(h, gain, wn, &wh, drop);
  auto check = [&](const Matrix& gradient, const Matrix& at, auto f) {
    EXPECT_LT(relative_error(gradient, numeric_gradient(f, at)), kTolerance);
  };
  check(got.dx, x, [&](const Matrix& m) { return scalar(m, branch, bias, gain, shift); });
  check(got.dbranch, branch, [&](const Matrix& m) { return scalar(x, m, bias, gain, shift); });
  check(got.dbias, bias, [&](const Matrix& m) { return scalar(x, branch, m, gain, shift); });
  check(got.dgain, gain, [&](const Matrix& m) { return scalar(x, branch, bias, m, shift); });
  check(got.dshift, shift, [&](const Matrix& m) { return scalar(x, branch, bias, gain, m); });
}

TEST(Reference, GradientOfActivations) {
  const std::vector<uint64_t> numbers = {5, 99, 7};
  const Dropout drop = dropout_of(numbers);
  for (auto kind : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish,
                    ActivationKind::kGeluErf}) {
    const Matrix z = normal(3, 17, 1, 2), bias = normal(1, 17, 2), w = normal(3, 17, 3);
    auto f = [&](const Matrix& m) { return weighted(activation(kind, m, bias, drop), w); };
    EXPECT_LT(relative_error(activation_gradient(kind, z, bias, drop, w), numeric_gradient(f, z)),
              kTolerance);
  }
}

TEST(Reference, GradientOfAttention) {
  const std::vector<uint64_t> numbers = {5, 99, 7, 1, 2, 3};
  const Dropout drop = dropout_of(numbers);
  for (bool causal : {false, true}) {
    const std::vector<uint32_t> queries = {0, 5, 6};
    const std::vector<uint32_t> keys = causal ? queries : std::vector<uint32_t>{0, 3, 7};
    const Matrix q = normal(6, 8, 1), k = normal(keys.back(), 8, 2), v = normal(keys.back(), 8, 3);
    const Matrix w = normal(6, 8, 4);
    auto forward = [&](const Matrix& a, const Matrix& b, const Matrix& c) {
      return weighted(attention(a, b, c, w, queries, keys, 2, causal, drop).out, w);
    };
    const Attended got = attention(q, k, v, w, queries, keys, 2, causal, drop);
    auto check = [&](const Matrix& gradient, const Matrix& at, auto f) {
      EXPECT_LT(relative_error(gradient, numeric_gradient(f, at)), kTolerance);
    };
    check(got.dq, q, [&](const Matrix& m) { return forward(m, k, v); });
    check(got.dk, k, [&](const Matrix& m) { return forward(q, m, v); });
    check(got.dv, v, [&](const Matrix& m) { return forward(q, k, m); });
  }
}

TEST(Reference, GradientOfEmbedding) {
  const std::vector<uint64_t> numbers = {5, 99, 7, 1, 2};
  const Dropout drop = dropout_of(numbers);
  const std::vector<uint32_t> ids = {3, 1, 3, 0, 3}, places = {0, 1, 2, 0, 1};
  const Matrix table = normal(4, 6, 1), positions = normal(3, 6, 2), w = normal(5, 6, 3);
  auto by_table = [&](const Matrix& m) {
    return weighted(embed(ids, places, 4.5, m, positions, drop), w);
  };
  auto by_place = [&](const Matrix& m) {
    return weighted(embed(ids, places, 4.5, table, m, drop), w);
  };
  EXPECT_LT(relative_error(embed_gradient(ids, 4.5, w, 4, drop), numeric_gradient(by_table, table)),
            kTolerance);
  EXPECT_LT(
      relative_error(embed_gradient(places, 1, w, 3, drop), numeric_gradient(by_place, positions)),
      kTolerance);
}

TEST(Reference, GradientOfProjectionLoss) {
  const Matrix hidden = normal(5, 6, 1), table = normal(11, 6, 2);
  const std::vector<uint32_t> targets = {3, 0, 10, 3};  // the last row has none
  const Loss got = projection_loss(hidden, table, targets, 0.1, 0.25);
  auto by_hidden = [&](const Matrix& m) {
    return 0.25 * projection_loss(m, table, targets, 0.1, 1).smoothed;
  };
  auto by_table = [&](const Matrix& m) {
    return 0.25 * projection_loss(hidden, m, targets, 0.1, 1).smoothed;
  };
  EXPECT_LT(relative_error(got.dhidden, numeric_gradient(by_hidden, hidden)), kTolerance);
  EXPECT_LT(relative_error(got.dtable, numeric_gradient(by_table, table)), kTolerance);
}

// Rows of the result are nearly orthonormal: X X' has eigenvalues between 0.7^2 and 1.2^2, so its
// diagonal does, too, and each element beside it is small.
TEST(Reference, OrthogonalisedMatricesAreNearlyOrthogonal) {
  for (const auto& [rows, cols] : {std::pair(12, 40), std::pair(40, 12)}) {
    const Matrix x = orthogonalised(normal(rows, cols, 3));
    const Matrix gram = multiply(x, rows > cols, x, rows < cols);
    ASSERT_EQ(gram.rows, 12);
    for (int64_t r = 0; r < 12; ++r) {
      for (int64_t c = 0; c < 12; ++c) EXPECT_NEAR(gram.at(r, c), r == c ? 1 : 0, 0.5);
    }
  }
}

}  // namespace
}  // namespace reigen::reference
