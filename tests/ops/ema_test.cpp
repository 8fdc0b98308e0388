// The moving average of the parameters against the double-precision reference.
#include "ops/ema.h"

#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

TEST_P(Ops, TheMovingAverageFollowsItsDefinition) {
  const int64_t n = 100'004;
  Matrix average = normal(1, n, 1);
  Buffer on_device = fp32(average);
  for (double weight : {1.0, 0.25, 0.001, 0.0}) {
    Matrix parameters = normal(1, n, 7);
    const Buffer read = fp32(parameters);
    ema_step(device(), weight, read.span(), on_device.span());
    for (int64_t i = 0; i < n; ++i) {
      average.at(0, i) += weight * (parameters.at(0, i) - average.at(0, i));
    }
    expect_close(on_device, average, 2e-7, "average");
    expect_close(read, parameters, 0, "parameters");
  }
}

TEST_P(Ops, TheMovingAverageOfNothingIsNothing) { ema_step(device(), 0.5, {}, {}); }

}  // namespace
}  // namespace reigen
