// The expected chrF of a translation: it rises with the log-probability, and its intervals hold.
#include "decode/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"

namespace reigen {
namespace {

struct Sentences {
  std::vector<double> log_probabilities;
  std::vector<double> chrf;
};

// chrF rises with the log-probability, with noise that is larger in the middle.
Sentences some_sentences(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Sentences out;
  for (size_t i = 0; i < count; ++i) {
    const double x = -3.0 * static_cast<double>(random() % 10'000) / 10'000;
    const double quality = 100 * std::exp(x);
    const double noise =
        (static_cast<double>(random() % 2001) / 1000 - 1) * quality * (100 - quality) / 60;
    out.log_probabilities.push_back(x);
    out.chrf.push_back(std::clamp(quality + noise, 0.0, 100.0));
  }
  return out;
}

TEST(Calibration, NeedsEnoughSentences) {
  const Sentences few = some_sentences(99, 1);
  EXPECT_FALSE(Calibration::fit(few.log_probabilities, few.chrf));
  const Sentences enough = some_sentences(100, 1);
  EXPECT_TRUE(Calibration::fit(enough.log_probabilities, enough.chrf));
}

TEST(Calibration, ExpectsWhatIsMeasuredOnOtherSentences) {
  const Sentences fitted = some_sentences(1000, 1);
  const auto calibration = Calibration::fit(fitted.log_probabilities, fitted.chrf);
  const Sentences others = some_sentences(5000, 2);
  double bias = 0;
  size_t inside = 0;
  for (size_t i = 0; i < others.chrf.size(); ++i) {
    const ExpectedChrf expected = calibration->at(others.log_probabilities[i]);
    EXPECT_LE(expected.low, expected.expected);
    EXPECT_LE(expected.expected, expected.high);
    bias += others.chrf[i] - expected.expected;
    inside += others.chrf[i] >= expected.low && others.chrf[i] <= expected.high;
  }
  EXPECT_LT(std::abs(bias / static_cast<double>(others.chrf.size())), 2);
  const double share = static_cast<double>(inside) / static_cast<double>(others.chrf.size());
  EXPECT_GT(share, 0.74);
  EXPECT_LT(share, 0.88);
}

TEST(Calibration, RisesWithTheLogProbability) {
  const Sentences fitted = some_sentences(400, 3);
  const auto calibration = Calibration::fit(fitted.log_probabilities, fitted.chrf);
  double before = -1;
  for (double x = -5; x < 1; x += 0.01) {
    const double expected = calibration->at(x).expected;
    EXPECT_GE(expected, before);
    before = expected;
  }
}

TEST(Calibration, ReadsBackAsItWasWritten) {
  const Sentences fitted = some_sentences(300, 4);
  const auto calibration = Calibration::fit(fitted.log_probabilities, fitted.chrf);
  const Json json = calibration->to_json();
  const Calibration read = Calibration::from_json(JsonView(json));
  for (double x = -4; x < 1; x += 0.1) EXPECT_EQ(read.at(x).high, calibration->at(x).high);
}

TEST(Calibration, RefusesKnotsThatAreNoCalibration) {
  for (const char* text : {"[]", "3", R"([{"log_probability": 1}])",
                           R"([{"log_probability": 1, "chrf": 1, "low": 0, "high": 2},
                               {"log_probability": 0, "chrf": 1, "low": 0, "high": 2}])"}) {
    const Json json = Json::parse(text);
    EXPECT_THROW(Calibration::from_json(JsonView(json)), DataError) << text;
  }
}

}  // namespace
}  // namespace reigen
