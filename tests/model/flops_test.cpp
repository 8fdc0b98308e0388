// Floating-point operations of a step against the number of parameters in its products.
#include "model/flops.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(TokenFlops, AreSixPerWeightThatATokenIsMultipliedWith) {
  const ModelOptions base;  // 6+6 layers, width 512, ffn 2048
  const TokenFlops flops = token_flops(base, 32'768);
  const double d = 512;
  const double ffn = 2 * d * 2048;
  EXPECT_DOUBLE_EQ(flops.source, 6 * (6 * (4 * d * d + ffn) + 6 * 2 * d * d));
  EXPECT_DOUBLE_EQ(flops.target, 6 * (6 * (6 * d * d + ffn) + d * 32'768));
  // A pair of one token each uses every matrix of the model once: all of its 60,880,896 parameters
  // except norms and biases.
  EXPECT_NEAR((flops.source + flops.target) / 6, 60'880'896, 0.002 * 60'880'896);
}

TEST(ProductProbe, IsPlausibleForAProcessor) {
  const Device device = Device::cpu(1);
  const double measured = ProductProbe(device, DType::kF32).run(0.01);
  EXPECT_GT(measured, 1e8);  // a tenth of a GFLOP/s: slower than any machine this runs on
  EXPECT_LT(measured, 1e13);
}

}  // namespace
}  // namespace reigen
