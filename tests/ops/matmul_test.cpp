// Matrix products against the double-precision reference.
#include "ops/matmul.h"

#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::multiply;
using reference::normal;

TEST_P(Ops, MatmulMultipliesInEveryOrientationAndAccumulates) {
  struct Size {
    int64_t rows, inner, cols;
  };
  std::vector<Size> sizes = {{40, 72, 24}};
  if (!gpu()) sizes.push_back({33, 7, 19});
  for (const auto& [rows, inner, cols] : sizes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        Matrix a = ta ? normal(inner, rows, 1) : normal(rows, inner, 1);
        Matrix b = tb ? normal(cols, inner, 2) : normal(inner, cols, 2);
        Matrix before = normal(rows, cols, 3);
        Buffer fa = typed(a, stride(a.cols)), fb = typed(b), c = typed(before, stride(cols));
        auto flag = [](bool t) { return t ? Transpose::kYes : Transpose::kNo; };
        matmul(device(), fa.tensor(), flag(ta), fb.tensor(), flag(tb), c.tensor(), 2, 1);
        Matrix wanted = multiply(a, ta, b, tb);
        for (double& x : wanted.values) x *= 2;
        expect_close(c, sum(wanted, before), GetParam().in_products,
                     std::to_string(ta) + std::to_string(tb));
      }
    }
  }
}

TEST_P(Ops, LinearLayerAndItsGradients) {
  const int64_t tokens = 333, in = 96, out = 72;
  Matrix x = normal(tokens, in, 1), w = normal(out, in, 2), dy = normal(tokens, out, 3);
  Buffer fx = typed(x, in + 8), fw = typed(w), fdy = typed(dy, out + 16);
  Buffer y = empty(tokens, out, out + 8);
  linear_forward(device(), fx.tensor(), fw.tensor(), y.tensor());
  expect_close(y, multiply(x, false, w, true), GetParam().in_products, "y");
  for (bool accumulate : {false, true}) {
    Matrix before = normal(tokens, in, 4);
    Buffer dx = typed(before, in + 8);
    linear_backward_input(device(), fdy.tensor(), fw.tensor(), dx.tensor(), accumulate);
    const Matrix product = multiply(dy, false, w, false);
    expect_close(dx, accumulate ? sum(product, before) : product, GetParam().in_products, "dx");
  }
  Matrix before = normal(out, in, 5);
  Buffer dw = fp32(before);
  linear_backward_weight(device(), fdy.tensor(), fx.tensor(), dw.tensor());
  expect_close(dw, sum(multiply(dy, true, x, false), before), GetParam().fp32_products, "dw");
}

}  // namespace
}  // namespace reigen
