// Predictions on curves whose continuation is known.
#include "report/verdict/learning/expected_gain.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reigen {
namespace {

LearningCurve curve_of(size_t evaluations, const std::function<double(double)>& valid,
                       const std::function<double(double)>& train, double epochs = 0) {
  LearningCurve curve;
  for (size_t i = 1; i <= evaluations; ++i) {
    const double step = 100 * static_cast<double>(i);
    const double done = static_cast<double>(i) / static_cast<double>(evaluations);
    curve.points.push_back({step, valid(step), train(step), done * epochs});
  }
  curve.rate = [](double) { return 1.0; };
  return curve;
}

double power_law(double step) { return 1.2 + 40 / std::sqrt(step); }

TEST(ExpectedGain, NeedsFiveEvaluations) {
  EXPECT_FALSE(shape_of(curve_of(4, power_law, power_law)).has_value());
  EXPECT_TRUE(shape_of(curve_of(5, power_law, power_law)).has_value());
}

TEST(ExpectedGain, TheIntervalHoldsTheContinuationOfASmoothCurve) {
  const LearningCurve curve = curve_of(30, power_law, power_law);
  const auto shape = shape_of(curve);
  for (const double more : {0.05, 0.1, 0.3, 0.5, 0.8, 1.0}) {
    const ExpectedGain gain = expected_gain(curve, *shape, more);
    const double came = power_law(3000) - power_law(3000 * (1 + more));
    EXPECT_LT(gain.low, came) << more;
    EXPECT_GT(gain.high, came) << more;
    EXPECT_GT(gain.gain, 0) << more;
  }
}

TEST(ExpectedGain, AGainGrowsWithTheStepsAndHasNoJumps) {
  const LearningCurve curve = curve_of(30, power_law, power_law);
  const auto shape = shape_of(curve);
  double before = 0;
  for (double more = 0.02; more <= 1; more += 0.02) {
    const ExpectedGain gain = expected_gain(curve, *shape, more);
    EXPECT_LT(std::abs(gain.gain - before), 0.03) << more;
    before = gain.gain;
  }
}

// Two runs with the same validation losses: where training loss falls much faster, less is to come.
TEST(ExpectedGain, AFallingTrainingLossThatValidationDoesNotFollowLowersTheGain) {
  const auto flat = [](double step) { return 3 + 40 / step; };
  const LearningCurve together = curve_of(20, flat, flat, 10);
  const LearningCurve apart = curve_of(
      20, flat, [](double step) { return 6 - 0.65 * std::log(step); }, 10);
  const ExpectedGain healthy = expected_gain(together, *shape_of(together), 1.0);
  const ExpectedGain bending = expected_gain(apart, *shape_of(apart), 1.0);
  EXPECT_LT(bending.gain, healthy.gain);
  EXPECT_LT(bending.low, 0);
}

TEST(ExpectedGain, ARateThatEndsEndsTheGain) {
  LearningCurve curve = curve_of(20, power_law, power_law);
  const auto shape = shape_of(curve);
  const double on = expected_gain(curve, *shape, 1.0).gain;
  curve.rate = [](double step) { return step <= 2000 ? 1.0 : 1e-9; };
  const RateAhead ahead = rate_ahead(curve, *shape, 1.0);
  EXPECT_LT(ahead.amount, 1e-6);
  EXPECT_NEAR(ahead.fall, 1, 1e-6);
  EXPECT_LT(expected_gain(curve, *shape, 1.0).gain, on);
}

// The same curves over text that is new, and over text that the model has seen twenty times: only
// the second gap is memory.
TEST(ExpectedGain, AGapToTrainingLossLowersTheGainOnlyWhereTextIsKnown) {
  const auto valid = [](double step) { return 5 - 0.2 * std::log(step); };
  const auto train = [](double step) { return 5 - 0.4 * std::log(step); };
  const LearningCurve on_new = curve_of(20, valid, train, 0.5);
  const LearningCurve on_known = curve_of(20, valid, train, 20);
  EXPECT_EQ(rate_ahead(on_new, *shape_of(on_new), 0.5).known, 0);
  EXPECT_NEAR(rate_ahead(on_known, *shape_of(on_known), 0.5).known, 1 - 1 / 30.0, 1e-9);
  const ExpectedGain fresh = expected_gain(on_new, *shape_of(on_new), 0.5);
  const ExpectedGain memory = expected_gain(on_known, *shape_of(on_known), 0.5);
  EXPECT_LT(memory.gain, fresh.gain);
}

TEST(ExpectedGain, BleuRisesWithAFallingLoss) {
  std::vector<BleuPoint> points;
  for (int i = 1; i <= 20; ++i) {
    const double loss = power_law(100.0 * i);
    points.push_back({100.0 * i, loss, 60 - 20 * loss});
  }
  const auto shape = bleu_shape_of(points);
  ASSERT_TRUE(shape.has_value());
  EXPECT_NEAR(shape->long_slope, -20, 1e-6);
  const ExpectedGain gain = expected_bleu(
      *shape, {.more = 0.5, .gain = 0.1, .low = 0.05, .high = 0.15, .deviation = 0.04});
  EXPECT_GT(gain.gain, 0);
  EXPECT_LT(gain.low, 2);
  EXPECT_GT(gain.high, 2);
}

}  // namespace
}  // namespace reigen
