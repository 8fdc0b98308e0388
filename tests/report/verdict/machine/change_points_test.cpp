// Where the level of a series changes, in noise like that of a busy machine.
#include "report/verdict/machine/change_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Step times with noise of this deviation, of which each value resembles the one before by
// `memory`, and with single slow steps.
class Series {
 public:
  Series(double deviation, double memory) : deviation_(deviation), memory_(memory) {}

  std::vector<double> of(const std::vector<double>& levels) {
    std::vector<double> values;
    double noise = deviation_ * normal_(random_);
    for (const double level : levels) {
      values.push_back(level * std::exp(noise + (uniform_(random_) < 0.03 ? slow_(random_) : 0)));
      noise = memory_ * noise + deviation_ * std::sqrt(1 - memory_ * memory_) * normal_(random_);
    }
    return values;
  }

 private:
  double deviation_;
  double memory_;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  std::exponential_distribution<double> slow_{1 / 0.7};
};

TEST(ChangePoints, ALevelThatLastsIsFoundWhereItBegins) {
  std::vector<double> values(40, 0.09);
  values.resize(60, 0.72);
  EXPECT_THAT(change_points(values), ElementsAre(40));
  EXPECT_THAT(change_points(std::vector<double>(60, 0.1)), IsEmpty());
  EXPECT_THAT(change_points({}), IsEmpty());
  EXPECT_THAT(change_points({1, 1, 1, 5, 5, 5}), IsEmpty()) << "too few values";
}

TEST(ChangePoints, BothEndsOfAPhaseAreFound) {
  std::vector<double> values(40, 1);
  values.resize(60, 2);
  values.resize(100, 1);
  EXPECT_THAT(change_points(values), ElementsAre(40, 60));
}

TEST(ChangePoints, SingleSlowStepsAndSmallChangesAreNone) {
  std::vector<double> values(60, 1);
  for (size_t i = 3; i < values.size(); i += 10) values[i] = 8;
  EXPECT_THAT(change_points(values), IsEmpty());
  std::vector<double> little(30, 1);
  little.resize(60, 1.15);
  EXPECT_THAT(change_points(little), IsEmpty());
}

TEST(ChangePoints, HealthyRunsHaveNone) {
  constexpr int kRuns = 300;
  for (const auto& [deviation, memory, most] :
       std::vector<std::tuple<double, double, int>>{{0.05, 0, 0},
                                                    {0.3, 0, 0},
                                                    {0.1, 0.5, 0},
                                                    {0.2, 0.5, 0},
                                                    {0.1, 0.8, 3},
                                                    {0.05, 0.9, 3}}) {
    Series series(deviation, memory);
    int alarms = 0;
    for (int run = 0; run < kRuns; ++run) {
      const auto length = static_cast<size_t>(24 + run % 100);
      alarms += change_points(series.of(std::vector<double>(length, 0.1))).empty() ? 0 : 1;
    }
    EXPECT_LE(alarms, most) << deviation << " " << memory;
  }
}

TEST(ChangePoints, AreFoundInNoise) {
  constexpr int kRuns = 100;
  for (const double share : {0.15, 0.5}) {
    Series series(0.08, 0.5);
    int found = 0;
    for (int run = 0; run < kRuns; ++run) {
      const auto at = static_cast<size_t>(100 * (1 - share));
      std::vector<double> levels(at, 0.1);
      levels.resize(100, 0.17);
      for (const size_t point : change_points(series.of(levels))) {
        if (point + 4 > at && point < at + 4) {
          ++found;
          break;
        }
      }
    }
    EXPECT_GE(found, 85) << share;
  }
}

}  // namespace
}  // namespace reigen
