#include "optim/update.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reigen {
namespace {

TEST(AdamConstants, AreThoseOfTheOptions) {
  const OptimizerOptions options{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.1};
  const AdamStep adam = adam_constants(options);
  EXPECT_EQ(adam.beta1, 0.8);
  EXPECT_EQ(adam.beta2, 0.9);
  EXPECT_EQ(adam.epsilon, 1e-6);
  EXPECT_EQ(adam.gradient_scale, 1);
}

TEST(AdamConstants, HaveWeightDecayForAdamWOnly) {
  OptimizerOptions options{.weight_decay = 0.1};
  EXPECT_EQ(adam_constants(options).weight_decay, 0);
  options.kind = OptimizerKind::kAdamW;
  EXPECT_EQ(adam_constants(options).weight_decay, 0.1);
  options.kind = OptimizerKind::kMuon;
  EXPECT_EQ(adam_constants(options).weight_decay, 0);
}

TEST(MuonConstants, AreThoseOfTheOptions) {
  const MuonStep muon = muon_constants({.weight_decay = 0.1, .momentum = 0.8});
  EXPECT_EQ(muon.momentum, 0.8);
  EXPECT_EQ(muon.weight_decay, 0.1);
  EXPECT_EQ(muon.gradient_scale, 1);
}

TEST(EmaWeight, ForgetsTheFirstWeightsQuickly) {
  EXPECT_NEAR(ema_weight(0.999, 1), 1 - 2.0 / 11, 1e-15);
  EXPECT_NEAR(ema_weight(0.999, 80), 1 - 81.0 / 90, 1e-15);
  EXPECT_NEAR(ema_weight(0.999, 8990), 0.001, 1e-12);
  EXPECT_NEAR(ema_weight(0.999, 1'000'000), 0.001, 1e-12);
}

TEST(EmaWeight, OfSeveralStepsAtOnceIsThatOfStepsWithTheSameWeights) {
  double average = 0;
  for (int i = 0; i < 5; ++i) average += ema_weight(0.9, 1000) * (1 - average);
  EXPECT_NEAR(ema_weight(0.9, 1000, 5), average, 1e-12);
}

TEST(ClipFactor, BringsALargeGradientDownToTheLimit) {
  EXPECT_EQ(clip_factor(4, 1), 0.25);
  EXPECT_EQ(clip_factor(1, 1), 1);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(1e9, 0), 1);  // no clipping
}

}  // namespace
}  // namespace reigen
