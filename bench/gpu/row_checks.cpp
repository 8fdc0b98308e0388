// What works row by row: norms, activations, biases.
#include "checker.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/residual_norm.h"

namespace reigen::bench {

using host::column_sums;

void Checker::norm(DType dtype, DType residual, int64_t rows, int64_t width, float rate,
                   bool with_branch) {
  const std::string which = std::string(name_of(dtype)) + "/" + name_of(residual) + " width " +
                            std::to_string(width) + (rate > 0 ? " dropout" : "") +
                            (with_branch ? "" : " plain");
  Matrix x = normal(rows, width), branch = normal(rows, width), bias = normal(1, width);
  Matrix gain = normal(1, width), shift = normal(1, width);
  Matrix dn = normal(rows, width), dh = normal(rows, width);
  GpuMatrix gx(x, residual), gbranch(branch, dtype, width + 8), gbias(bias, DType::kF32);
  GpuMatrix ggain(gain, DType::kF32), gshift(shift, DType::kF32);
  GpuMatrix h(rows, width, residual), n(rows, width, dtype), stats(rows, 2, DType::kF32);
  Drop drop = make_drop(rows, with_branch ? rate : 0);
  ResidualNorm op;
  op.x = gx.tensor();
  op.gain = ggain.tensor();
  op.shift = gshift.tensor();
  op.n = n.tensor();
  op.stats = stats.tensor();
  if (with_branch) {
    op.branch = gbranch.tensor();
    op.bias = gbias.tensor();
    op.h = h.tensor();
    op.dropout = drop.device;
  }
  cuda::residual_norm_forward(context_, op);
  finish();
  const Dropout hd = on_host(drop);
  auto wanted = host::residual_norm(x, with_branch ? &branch : nullptr, &bias, gain, shift, hd);
  if (with_branch) compare("norm forward", which + " h", h, wanted.h, rounding(residual));
  // n is made from h as stored, so it carries both roundings.
  compare("norm forward", which + " n", n, wanted.n, rounding(dtype) + rounding(residual));

  const Matrix held = with_branch ? h.download() : x;
  GpuMatrix gdn(dn, dtype), gdh(dh, residual);
  const auto grads = host::residual_norm_gradients(held, gain, dn, with_branch ? &dh : nullptr, hd);
  GpuMatrix dx(rows, width, residual), dbranch(rows, width, dtype, width + 8);
  Matrix before = normal(1, width);
  GpuMatrix dgain(before, DType::kF32), dshift(before, DType::kF32), dbias(before, DType::kF32);
  ResidualNormGrad g;
  g.dn = gdn.tensor();
  g.dx = dx.tensor();
  g.dgain = dgain.tensor();
  g.dshift = dshift.tensor();
  if (with_branch) {
    g.dh = gdh.tensor();
    g.dx = gdh.tensor();  // in place, as the model uses it
    g.dbranch = dbranch.tensor();
    g.dbias = dbias.tensor();
  }
  cuda::residual_norm_backward(context_, op, g);
  finish();
  auto plus = [&](Matrix m) {
    for (size_t i = 0; i < m.values.size(); ++i) m.values[i] += before.values[i];
    return m;
  };
  compare("norm backward", which + " dx", with_branch ? gdh : dx, grads.dx, rounding(residual));
  compare("norm backward", which + " dgain", dgain, plus(grads.dgain), 1e-5);
  compare("norm backward", which + " dshift", dshift, plus(grads.dshift), 1e-5);
  if (!with_branch) return;
  compare("norm backward", which + " dbranch", dbranch, grads.dbranch, rounding(dtype));
  compare("norm backward", which + " dbias", dbias, plus(grads.dbias), 1e-5);
}

void Checker::norms() {
  const DType b = DType::kBF16, h = DType::kF16, f = DType::kF32;
  for (float rate : {0.0F, 0.1F}) {
    for (auto [t, r] : {std::pair{b, b}, {b, f}, {h, h}, {h, f}, {f, f}}) {
      norm(t, r, 300, 512, rate, true);
    }
  }
  for (int64_t width : {8, 64, 264, 1024, 2048}) norm(b, b, 77, width, 0.3F, true);
  norm(b, b, 1, 512, 0.1F, true);
  norm(b, b, 5000, 512, 0, false);
}

void Checker::activations() {
  const int64_t rows = 301, width = 1032;
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (auto kind : {ActivationKind::kRelu, ActivationKind::kGelu, ActivationKind::kSwish}) {
      for (float rate : {0.0F, 0.1F}) {
        const std::string which = std::string(name_of(dtype)) + " kind " +
                                  std::to_string(static_cast<int>(kind)) +
                                  (rate > 0 ? " dropout" : "");
        Matrix z = normal(rows, width, 2), bias = normal(1, width), dout = normal(rows, width);
        GpuMatrix gz(z, dtype), gbias(bias, DType::kF32), gdout(dout, dtype);
        GpuMatrix out(rows, width, dtype);
        Drop drop = make_drop(rows, rate);
        GpuArray<uint8_t> mask(std::vector<uint8_t>(static_cast<size_t>(rows * width / 8)));
        Activation op{kind, gz.tensor(), gbias.tensor(), drop.device, out.tensor()};
        cuda::activation_forward(context_, op, mask.get());
        finish();
        const Dropout hd = on_host(drop);
        const Matrix wanted = host::activation(kind, z, bias, hd);
        compare("activation forward", which, out, wanted, rounding(dtype));
        if (kind == ActivationKind::kRelu) {
          const auto bits = mask.download();
          double wrong = 0;
          for (size_t i = 0; i < wanted.values.size(); ++i) {
            wrong += (bits[i / 8] >> (i % 8) & 1) != (wanted.values[i] > 0);
          }
          add("activation forward", which + " mask", wrong, 0.5);
        }
        Matrix before = normal(1, width);
        GpuMatrix dbias(before, DType::kF32);
        cuda::activation_backward(context_, op, gdout.tensor(), gdout.tensor(), dbias.tensor());
        finish();
        const Matrix dz = host::activation_gradient(kind, z, bias, hd, dout);
        compare("activation backward", which, gdout, dz, rounding(dtype));
        Matrix sums = column_sums(dz);
        for (size_t i = 0; i < sums.values.size(); ++i) sums.values[i] += before.values[i];
        compare("activation backward", which + " dbias", dbias, sums, 1e-5);
        if (kind != ActivationKind::kRelu) continue;
        gdout.upload(dout);
        dbias.upload(before);
        cuda::activation_backward(context_, op, gdout.tensor(), gdout.tensor(), dbias.tensor(),
                                  mask.get());
        finish();
        compare("activation backward", which + " by mask", gdout, dz, rounding(dtype));
        compare("activation backward", which + " by mask dbias", dbias, sums, 1e-5);
      }
    }
    Matrix y = normal(rows, 72), bias = normal(1, 72), zero(1, 72);
    GpuMatrix gy(y, dtype, 80), gbias(bias, DType::kF32), dbias(zero, DType::kF32);
    cuda::bias_backward(context_, gy.tensor(), dbias.tensor());
    cuda::add_bias(context_, gy.tensor(), gbias.tensor());
    finish();
    compare("bias", name_of(dtype), dbias, column_sums(y), 1e-5);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < 72; ++c) y.at(r, c) += bias.at(0, c);
    }
    compare("bias", name_of(dtype), gy, y, rounding(dtype));
  }
}

}  // namespace reigen::bench
