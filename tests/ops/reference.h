// Every operation in double precision, forward and gradient, written as plainly as possible: loops
// in the order of the textbook. All devices and types are compared with these; reference_test.cpp
// compares the gradients here with finite differences.
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
  Matrix(int64_t r, int64_t c, double value = 0)
      : rows(r), cols(c), values(static_cast<size_t>(r * c), value) {}
  double& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * cols + c)]; }
  double at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * cols + c)]; }
};

// Normally distributed fp32 values that depend only on the seed.
Matrix normal(int64_t rows, int64_t cols, uint64_t seed, double deviation = 1);

Matrix sum(const Matrix& a, const Matrix& b);
Matrix column_sums(const Matrix& m);

// The factor (0 or 1 / (1 - rate)) of one element, by the scalar definition of Philox.
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

struct Attended {
  Matrix out, log_sums, dq, dk, dv;
  // Norms of the terms that are added up in dq and dk. With one key they cancel to 0 exactly, and
  // an error can only be measured against these.
  double dq_terms = 0;
  double dk_terms = 0;
};
// Rows past the last sentence are zeros.
Attended attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& dout,
                   std::span<const uint32_t> query_offsets, std::span<const uint32_t> key_offsets,
                   int64_t heads, bool causal, const Dropout& dropout);

Matrix embed(std::span<const uint32_t> ids, std::span<const uint32_t> places, double scale,
             const Matrix& table, const Matrix& positions, const Dropout& dropout);
// Of the table, with ids as keys, or of the positions, with places and scale 1.
Matrix embed_gradient(std::span<const uint32_t> keys, double scale, const Matrix& dout,
                      int64_t rows, const Dropout& dropout);

struct Loss {
  double smoothed = 0;
  double nll = 0;
  Matrix dhidden, dtable;
};
// Rows of `hidden` past the last target contribute nothing.
Loss projection_loss(const Matrix& hidden, const Matrix& table, std::span<const uint32_t> targets,
                     double smoothing, double scale);

// Adam with decoupled weight decay, as in the paper. `updates` counts from 1.
struct AdamConstants {
  double beta1, beta2, epsilon, weight_decay;
};
void adam(const AdamConstants& constants, double rate, double gradient_scale, double updates,
          const Matrix& gradient, Matrix& parameters, Matrix& first, Matrix& second);

// Five quintic Newton-Schulz iterations on m / ||m||.
Matrix orthogonalised(const Matrix& m);

// Muon on one matrix, with Nesterov momentum and decoupled weight decay.
struct MuonConstants {
  double momentum, weight_decay;
};
void muon(const MuonConstants& constants, double rate, double gradient_scale,
          const Matrix& gradient, Matrix& parameters, Matrix& momentum);

double norm(const Matrix& m);

// Gradient of f at x by central differences.
Matrix numeric_gradient(const std::function<double(const Matrix&)>& f, const Matrix& x);

// sum(weights * y): turns an output into a scalar whose gradient by y is `weights`.
double weighted(const Matrix& y, const Matrix& weights);

// ||got - wanted|| / ||wanted|| (or `least`, if that is larger); NaN when anything is NaN.
double relative_error(const Matrix& got, const Matrix& wanted, double least = 1e-12);

}  // namespace reigen::reference
