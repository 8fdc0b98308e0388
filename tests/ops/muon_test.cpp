// Muon against the double-precision reference.
#include "ops/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

// One matrix of a flat buffer.
Matrix part_of(const Matrix& flat, const MatrixRange& at) {
  Matrix part(at.rows, at.cols);
  for (size_t i = 0; i < at.size(); ++i) part.values[i] = flat.values[at.offset + i];
  return part;
}

void put_part(Matrix& flat, const MatrixRange& at, const Matrix& part) {
  for (size_t i = 0; i < at.size(); ++i) flat.values[at.offset + i] = part.values[i];
}

// Matrices of several shapes, wide, tall and square, some of the same shape, with gaps of 16
// between them.
std::vector<MatrixRange> matrices_of(const std::vector<std::pair<int64_t, int64_t>>& shapes) {
  std::vector<MatrixRange> all;
  size_t at = 16;
  for (const auto& [rows, cols] : shapes) {
    all.push_back({at, rows, cols});
    at = (all.back().end() + 15) / 16 * 16 + 16;
  }
  return all;
}

TEST_P(Ops, MuonFollowsItsDefinition) {
  std::vector<std::pair<int64_t, int64_t>> shapes = {{64, 64}, {48, 136}, {64, 64}, {136, 48},
                                                     {8, 16},  {48, 136}, {64, 64}};
  if (!gpu()) shapes.insert(shapes.end(), {{3, 5}, {17, 4}, {1, 1}});
  const std::vector<MatrixRange> matrices = matrices_of(shapes);
  const auto n = static_cast<int64_t>(matrices.back().end() + 16);
  Matrix p = normal(1, n, 1, 0.02), m(1, n);
  const Matrix begin = p;
  Buffer fp = fp32(p), fm = fp32(m);
  for (uint64_t step = 1; step <= 3; ++step) {
    Matrix g = normal(1, n, 10 + step, 1e-4);
    const Buffer fg = fp32(g);
    muon_step(device(),
              {.rate = 0.1,
               .momentum = 0.9,
               .weight_decay = 0.2,
               .gradient_scale = 0.5,
               .products = type()},
              matrices, fg.span(), fp.span(), fm.span());
    for (const MatrixRange& at : matrices) {
      Matrix parameters = part_of(p, at), momentum = part_of(m, at);
      muon({0.9, 0.2}, 0.1, 0.5, part_of(g, at), parameters, momentum);
      put_part(p, at, parameters);
      put_part(m, at, momentum);
    }
  }
  expect_close(fm, m, 2e-6, "momentum");
  // The iterations amplify rounding; emulated on a CPU, bf16 has an error of 0.012 to 0.022.
  const Matrix got = fp.values();
  for (const MatrixRange& at : matrices) {
    EXPECT_LE(relative_error(part_of(got, at), part_of(p, at)), 20 * GetParam().in_products)
        << at.rows << " x " << at.cols;
  }
  size_t after = 0;
  for (const MatrixRange& at : matrices) {  // elements between matrices stay as they are
    for (; after < at.offset; ++after) ASSERT_EQ(got.values[after], begin.values[after]) << after;
    after = at.end();
  }
}

TEST_P(Ops, MuonOnlyDecaysAMatrixWithoutGradient) {
  const std::vector<MatrixRange> matrices = matrices_of({{16, 32}, {16, 32}});
  const auto n = static_cast<int64_t>(matrices.back().end());
  Matrix p = normal(1, n, 1), zero(1, n), g = zero;
  for (size_t i = 0; i < matrices[1].size(); ++i) g.values[matrices[1].offset + i] = 1e-30;
  Buffer fp = fp32(p), fm = fp32(zero), fg = fp32(g);
  muon_step(device(), {.rate = 0.1, .weight_decay = 0.5, .products = type()}, matrices, fg.span(),
            fp.span(), fm.span());
  const Matrix got = fp.values();
  for (size_t i = 0; i < matrices[0].size(); ++i) {
    const size_t at = matrices[0].offset + i;
    ASSERT_NEAR(got.values[at], 0.95 * p.values[at], 1e-6);
  }
  for (double value : got.values) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace reigen
