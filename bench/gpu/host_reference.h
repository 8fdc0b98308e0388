// What each operation computes, forward and gradient, in double precision on the host.
//
// tests/ops/reference.h holds the definitions and takes gradients by finite differences, which is
// too slow for sentences of 500 tokens; here gradients are written down. They are independent of
// the kernels: plain loops in the order of the textbook.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/activation.h"
#include "ops/dropout.h"

namespace reigen::host {

struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), cols(c), values(static_cast<size_t>(r * c)) {}
  double& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * cols + c)]; }
  double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * cols + c)]; }
};

double drop_factor(const Dropout& dropout, int64_t row, int64_t element, int64_t head = 0);

Matrix multiply(const Matrix& a, bool ta, const Matrix& b, bool tb);

struct Normed {
  Matrix h;
  Matrix n;
};
// branch and bias may be null.
Normed residual_norm(const Matrix& x, const Matrix* branch, const Matrix* bias, const Matrix& gain,
                     const Matrix& shift, const Dropout& dropout);
struct NormGradients {
  Matrix dx, dbranch, dgain, dshift, dbias;
};
NormGradients residual_norm_gradients(const Matrix& h, const Matrix& gain, const Matrix& dn,
                                      const Matrix* dh, const Dropout& dropout);

Matrix activation(ActivationKind kind, const Matrix& z, const Matrix& bias, const Dropout& dropout);
Matrix activation_gradient(ActivationKind kind, const Matrix& z, const Matrix& bias,
                           const Dropout& dropout, const Matrix& dout);
Matrix column_sums(const Matrix& m);

struct Attended {
  Matrix out, log_sums, dq, dk, dv;
  // Norms of what is added up in dq and dk. With one key it cancels to 0 exactly, and an error can
  // only be measured against these.
  double dq_terms = 0;
  double dk_terms = 0;
};
Attended attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& dout,
                   std::span<const uint32_t> query_offsets, std::span<const uint32_t> key_offsets,
                   int64_t heads, bool causal, const Dropout& dropout);

Matrix embed(std::span<const uint32_t> ids, std::span<const uint32_t> places, double scale,
             const Matrix& table, const Matrix& positions, const Dropout& dropout);
Matrix embed_gradient(std::span<const uint32_t> keys, double scale, const Matrix& dout,
                      int64_t rows, const Dropout& dropout);

struct Loss {
  double smoothed = 0;
  double nll = 0;
  Matrix dhidden, dtable;
};
constexpr uint32_t kNoTarget = 0xFFFFFFFFu;
Loss projection_loss(const Matrix& hidden, const Matrix& table, std::span<const uint32_t> targets,
                     double smoothing, double scale);

}  // namespace reigen::host
