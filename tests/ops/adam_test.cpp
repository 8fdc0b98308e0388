// The optimizer's operations against the double-precision reference.
#include "ops/adam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

TEST_P(Ops, GlobalNormIsTheRootOfTheSumOfSquares) {
  Matrix x = normal(1, 100'003, 1);
  Buffer fx = fp32(x);
  EXPECT_NEAR(global_norm(device(), fx.span()) / norm(x), 1, 1e-6);
  for (double bad : {NAN, INFINITY}) {
    x.at(0, 77'777) = bad;
    fx.upload(x);
    EXPECT_FALSE(std::isfinite(global_norm(device(), fx.span())));
  }
}

TEST_P(Ops, AdamFollowsItsDefinition) {
  const int64_t n = 40'004;
  Matrix p = normal(1, n, 1), m(1, n), v(1, n);
  Buffer fp = fp32(p), fm = fp32(m), fv = fp32(v);
  for (uint64_t step = 1; step <= 5; ++step) {
    Matrix g = normal(1, n, 10 + step);
    const Buffer fg = fp32(g);
    const AdamStep options{.rate = 0.01,
                           .beta1 = 0.9,
                           .beta2 = 0.98,
                           .epsilon = 1e-9,
                           .weight_decay = 0.1,
                           .step = step,
                           .gradient_scale = 0.5};
    adam_step(device(), options, fg.span(), fp.span(), fm.span(), fv.span());
    adam({0.9, 0.98, 1e-9, 0.1}, 0.01, 0.5, static_cast<double>(step), g, p, m, v);
  }
  expect_close(fp, p, 2e-6, "parameters");
  expect_close(fm, m, 2e-6, "first moment");
  expect_close(fv, v, 2e-6, "second moment");
}

}  // namespace
}  // namespace reigen
