// Operations that work row by row (residual and norm, activation, bias) against the
// double-precision reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/activation.h"
#include "ops/op_case.h"
#include "ops/residual_norm.h"

namespace reigen {
namespace {

using reference::column_sums;
using reference::Matrix;
using reference::normal;

constexpr double kColumnSums = 1e-5;  // fp32 sums over rows

double rounding_of(DType type, double tolerance) { return type == DType::kF32 ? 3e-6 : tolerance; }

TEST_P(Ops, ResidualNormMatchesItsDefinitionAndItsGradient) {
  std::vector<DType> residuals = {type()};
  if (type() != DType::kF32) residuals.push_back(DType::kF32);
  for (DType residual : residuals) {
    for (int64_t width : widths({8, 64, 264, 512, 1024, 2048}, {16, 37, 256})) {
      const int64_t rows = width == 512 ? 300 : 77;
      const double rounding = rounding_of(residual, tolerance());
      const std::string which = std::string(name_of(residual)) + " width " + std::to_string(width);
      Matrix x = normal(rows, width, 1), branch = normal(rows, width, 2);
      Matrix bias = normal(1, width, 3), gain = normal(1, width, 4), shift = normal(1, width, 5);
      Matrix wn = normal(rows, width, 6), wh = normal(rows, width, 7);
      const Drop d = drop(rows);
      Buffer fx(device(), x, residual), fb = typed(branch, stride(width)), fbias = fp32(bias);
      Buffer fg = fp32(gain), fs = fp32(shift);
      Buffer h(device(), rows, width, residual), n = empty(rows, width);
      Buffer stats(device(), rows, 2);
      const ResidualNorm op{fx.tensor(), fb.tensor(), fbias.tensor(), fg.tensor(),   fs.tensor(),
                            d.on_device, h.tensor(),  n.tensor(),     stats.tensor()};
      residual_norm_forward(device(), op);
      const auto wanted = residual_norm(x, &branch, &bias, gain, shift, d.reference);
      expect_close(h, wanted.h, rounding, which + " h");
      // n is computed from h as stored, so it has both roundings.
      expect_close(n, wanted.n, tolerance() + rounding, which + " n");

      Matrix before = normal(1, width, 8);
      Buffer dn = typed(wn), dh(device(), wh, residual),
             dbranch = empty(rows, width, stride(width));
      Buffer dgain = fp32(before), dshift = fp32(before), dbias = fp32(before);
      const auto grads = residual_norm_gradients(h.values(), gain, wn, &wh, d.reference);
      // dx in place of dh, as the model does.
      residual_norm_backward(device(), op,
                             {dn.tensor(), dh.tensor(), dh.tensor(), dbranch.tensor(),
                              dgain.tensor(), dshift.tensor(), dbias.tensor()});
      complete_gradients(device());
      expect_close(dh, grads.dx, rounding, which + " dx");
      expect_close(dbranch, grads.dbranch, tolerance(), which + " dbranch");
      expect_close(dgain, sum(grads.dgain, before), kColumnSums, which + " dgain");
      expect_close(dshift, sum(grads.dshift, before), kColumnSums, which + " dshift");
      expect_close(dbias, sum(grads.dbias, before), kColumnSums, which + " dbias");
    }
  }
}

TEST_P(Ops, ResidualNormWithoutABranchIsALayerNorm) {
  for (int64_t rows : {1, 9, 3000}) {
    const int64_t width = 48;
    Matrix x = normal(rows, width, 1), gain = normal(1, width, 2), shift = normal(1, width, 3);
    Matrix wn = normal(rows, width, 4);
    Buffer fx = typed(x), fg = fp32(gain), fs = fp32(shift), n = empty(rows, width);
    Buffer stats(device(), rows, 2);
    ResidualNorm op{.x = fx.tensor(), .gain = fg.tensor(), .shift = fs.tensor()};
    op.n = n.tensor();
    op.stats = stats.tensor();
    residual_norm_forward(device(), op);
    expect_close(n, residual_norm(x, nullptr, nullptr, gain, shift, {}).n, 2 * tolerance(), "n");
    Matrix zero(1, width);
    Buffer dn = typed(wn), dx = empty(rows, width), dgain = fp32(zero), dshift = fp32(zero);
    residual_norm_backward(
        device(), op,
        {.dn = dn.tensor(), .dx = dx.tensor(), .dgain = dgain.tensor(), .dshift = dshift.tensor()});
    complete_gradients(device());
    const auto grads = residual_norm_gradients(x, gain, wn, nullptr, {});
    expect_close(dx, grads.dx, tolerance(), "dx");
    expect_close(dgain, grads.dgain, kColumnSums, "dgain");
    expect_close(dshift, grads.dshift, kColumnSums, "dshift");
  }
}

TEST_P(Ops, ActivationsMatchTheirDefinitionAndGradient) {
  for (auto kind : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish,
                    ActivationKind::kGeluErf}) {
    for (int64_t width : widths({1032}, {51})) {
      for (bool in_place : {false, true}) {
        const int64_t rows = 301;
        const size_t mask = activation_mask_bytes(device(), kind, rows, width);
        if (in_place && mask == 0) continue;  // only a mask allows it
        const std::string which =
            "kind " + std::to_string(static_cast<int>(kind)) + (in_place ? " in place" : "");
        Matrix z = normal(rows, width, 1, 2), bias = normal(1, width, 2);
        Matrix w = normal(rows, width, 3), before = normal(1, width, 4);
        const Drop d = drop(rows);
        Buffer fz = typed(z), fb = fp32(bias), out = empty(rows, width);
        Array<uint8_t> bits(device(), std::vector<uint8_t>(mask));
        Activation op{kind, fz.tensor(), fb.tensor(), d.on_device, out.tensor()};
        if (in_place) {
          op.out = op.z;
          op.mask = bits.span().data();
        }
        activation_forward(device(), op);
        const Matrix wanted = activation(kind, z, bias, d.reference);
        expect_close(in_place ? fz : out, wanted, tolerance(), which);
        Buffer dout = typed(w), dbias = fp32(before);
        activation_backward(device(), op, dout.tensor(), dout.tensor(), dbias.tensor());
        complete_gradients(device());
        const Matrix dz = activation_gradient(kind, z, bias, d.reference, w);
        expect_close(dout, dz, tolerance(), which + " dz");
        expect_close(dbias, sum(column_sums(dz), before), kColumnSums, which + " dbias");
      }
    }
  }
}

TEST_P(Ops, ActivationsOfLargeInputsAreZeroOrTheInputItself) {
  const std::vector<double> inputs = {-3000, -300, -120, -50, -30, -14, -12, -11,
                                      11,    12,   14,   30,  50,  120, 300, 3000};
  const auto width = static_cast<int64_t>(inputs.size());
  Matrix z(1, width), ones(1, width), zero(1, width);
  for (int64_t c = 0; c < width; ++c) z.at(0, c) = inputs[static_cast<size_t>(c)];
  for (int64_t c = 0; c < width; ++c) ones.at(0, c) = 1;
  for (auto kind : {ActivationKind::kGelu, ActivationKind::kSwish, ActivationKind::kGeluErf}) {
    Buffer fz = typed(z), fb = fp32(zero), out = empty(1, width);
    const Activation op{kind, fz.tensor(), fb.tensor(), {}, out.tensor()};
    activation_forward(device(), op);
    Buffer slope = typed(ones), dbias = fp32(zero);
    activation_backward(device(), op, slope.tensor(), slope.tensor(), dbias.tensor());
    complete_gradients(device());
    for (int64_t c = 0; c < width; ++c) {
      const double x = z.at(0, c);
      EXPECT_NEAR(out.values().at(0, c), std::max(x, 0.0), 1e-3 + 0.01 * std::max(x, 0.0)) << x;
      EXPECT_NEAR(slope.values().at(0, c), x > 0 ? 1 : 0, 1e-2) << x;
    }
  }
}

TEST_P(Ops, BiasIsAddedToEveryRowAndItsGradientIsTheColumnSum) {
  for (int64_t width : widths({72}, {21})) {
    Matrix y = normal(301, width, 1), bias = normal(1, width, 2), zero(1, width);
    Buffer fy = typed(y, stride(width)), fb = fp32(bias), db = fp32(zero);
    bias_backward(device(), fy.tensor(), db.tensor());
    complete_gradients(device());
    expect_close(db, column_sums(y), kColumnSums, "dbias");
    add_bias(device(), fy.tensor(), fb.tensor());
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t c = 0; c < width; ++c) y.at(r, c) += bias.at(0, c);
    }
    expect_close(fy, y, tolerance(), "y");
  }
}

TEST_P(Ops, DropoutRateIsTheShareOfElementsDropped) {
  const int64_t rows = 400, width = 256;
  const Drop d = drop(rows, 0.1F);
  Matrix one(rows, width, 1), zero(1, width);
  Buffer z = typed(one), bias = fp32(zero), out = empty(rows, width);
  activation_forward(device(),
                     {ActivationKind::kRelu, z.tensor(), bias.tensor(), d.on_device, out.tensor()});
  double dropped = 0;
  for (double x : out.values().values) dropped += x == 0;
  const auto n = static_cast<double>(rows * width);
  // Five standard deviations of a binomial.
  EXPECT_NEAR(dropped / n, 0.1, 5 * std::sqrt(0.09 / n));
}

}  // namespace
}  // namespace reigen
