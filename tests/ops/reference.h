// What each operation computes, written down in double precision as plainly as possible.
//
// Only forward passes: gradients are held to finite differences of these, so that no derivation
// stands between an operation and its definition.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/activation.h"
#include "ops/dropout.h"

namespace reigen::reference {

struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), cols(c), values(static_cast<size_t>(r * c)) {}
  double& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * cols + c)]; }
  double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * cols + c)]; }
};

// Values in (-1, 1) that depend on the seed only.
Matrix random(int64_t rows, int64_t cols, uint64_t seed);

// The factor (0 or 1 / (1 - rate)) of one element, by the scalar definition of Philox.
double drop_factor(const Dropout& dropout, int64_t row, uint32_t element, uint32_t head = 0);

Matrix multiply(const Matrix& a, bool ta, const Matrix& b, bool tb);

struct Normed {
  Matrix h;
  Matrix n;
};
Normed residual_norm(const Matrix& x, const Matrix* branch, const Matrix* bias, const Matrix& gain,
                     const Matrix& shift, const Dropout& dropout);

Matrix activation(ActivationKind kind, const Matrix& z, const Matrix& bias, const Dropout& dropout);

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v,
                 std::span<const uint32_t> query_offsets, std::span<const uint32_t> key_offsets,
                 int heads, bool causal, const Dropout& dropout);

Matrix embed(std::span<const uint32_t> ids, std::span<const uint32_t> offsets, double scale,
             const Matrix& table, const Matrix& positions, const Dropout& dropout);

struct Loss {
  double smoothed = 0;
  double nll = 0;
};
Loss projection_loss(const Matrix& hidden, const Matrix& table, std::span<const uint32_t> targets,
                     double smoothing);

// Gradient of f at x by central differences.
Matrix numeric_gradient(const std::function<double(const Matrix&)>& f, const Matrix& x);

// sum(weights * y): turns an output into a scalar whose gradient by y is `weights`.
double weighted(const Matrix& y, const Matrix& weights);

}  // namespace reigen::reference
