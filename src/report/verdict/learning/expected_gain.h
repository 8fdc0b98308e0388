// The gain expected from more steps, from the losses of a run and the rates of its schedule.
//
// A regression over real runs (bench/observe/calibration.py): the gain is a weighted sum of the
// slopes of validation and training loss in the logarithm of the step, over a short and a long
// window, scaled with the learning rates that the schedule has ahead. Validation that falls more
// slowly than training, or less than before, makes the predicted loss turn. A second sum predicts
// the error, and its observed quantiles give the 80% interval. Weights: gain_weights.cpp, made
// by bench/observe/gain_fit.cpp; how often the interval was right: docs/design/verdicts.md.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "observe/record/rollup_table.h"

namespace reigen {

struct EvaluatedPoint {
  double step = 0;
  double valid = 0;
  double train = 0;   // mean of the steps since the previous evaluation
  double epochs = 0;  // trained until then
};

// The losses of a run at its evaluations, and its learning rate at any step, past or planned.
struct LearningCurve {
  std::vector<EvaluatedPoint> points;
  std::function<double(double step)> rate;
};

struct ExpectedGain {
  double more = 0;  // 0.1: 10% more steps
  double gain = 0;  // of loss, from the last evaluation
  double low = 0;   // the 80% interval
  double high = 0;
  double deviation = 0;  // standard deviation of the error
};

inline constexpr size_t kFewestEvaluations = 5;
inline constexpr std::array kMoreSteps = {0.1, 0.5, 1.0};

// Figures of a run's curve at its last evaluation.
struct CurveShape {
  double step = 0;
  double valid = 0;        // last measured value
  double level = 0;        // of the parabola through the last 60% of the steps
  double bend = 0;         // second derivative of that parabola, by ln(step)
  double noise = 0;        // standard deviation of evaluations around their curve
  double short_slope = 0;  // of validation loss, by ln(step), over the last third of the steps
  double long_slope = 0;   // over the last 60%
  double short_train = 0;  // the same of training loss
  double long_train = 0;
  double gap = 0;     // validation loss above training loss, as a share of it
  double epochs = 0;  // trained so far
  double rate = 0;    // mean learning rate of the last third
  double peak = 0;    // highest rate so far
};
// Nothing with fewer than kFewestEvaluations.
std::optional<CurveShape> shape_of(const LearningCurve& curve);

// The learning rate ahead, for `more` times as many further steps.
struct RateAhead {
  double span = 0;    // ln(1 + more)
  double amount = 1;  // mean rate ahead / mean rate of the last third
  double fall = 0;    // 1 - rate at the end / mean rate of the last third
  double known = 0;   // 1 - 1 / epochs at the end: 0 in the first epoch, whose text is new
};
RateAhead rate_ahead(const LearningCurve& curve, const CurveShape& shape, double more);

inline constexpr size_t kGainTerms = 23;
inline constexpr size_t kErrorTerms = 14;
using GainTerms = std::array<double, kGainTerms>;
using ErrorTerms = std::array<double, kErrorTerms>;
GainTerms gain_terms(const CurveShape& shape, const RateAhead& ahead);
ErrorTerms error_terms(const CurveShape& shape, const RateAhead& ahead);

// Of one horizon: fitted weights, and the quantiles of error / deviation.
struct GainWeights {
  double more = 0;
  GainTerms gain;
  ErrorTerms error;  // weights of squares; the sum is a variance
  double low = 0;    // 10% quantile
  double high = 0;   // 90% quantile
};
extern const std::array<GainWeights, kMoreSteps.size()> kGainWeights;

// Between two horizons the predictions are interpolated, below the first they shrink with the span;
// beyond the last there is none. `more` above 0.
ExpectedGain expected_gain(const LearningCurve& curve, const CurveShape& shape, double more);

// BLEU follows the loss: its gain is predicted from that of the loss and from the slope of BLEU
// over the loss, over the same two windows, with weights fitted in the same way.
struct BleuPoint {
  double step = 0;
  double valid = 0;
  double bleu = 0;
};
struct BleuShape {
  double bleu = 0;   // last measured value
  double level = 0;  // of the line through the last third of the steps
  double noise = 0;
  double valid = 0;
  double short_slope = 0;  // BLEU for each nat of loss, negative where BLEU rises
  double long_slope = 0;
};
std::optional<BleuShape> bleu_shape_of(const std::vector<BleuPoint>& points);

inline constexpr size_t kBleuTerms = 4;
using BleuTerms = std::array<double, kBleuTerms>;
BleuTerms bleu_gain_terms(const BleuShape& shape, const ExpectedGain& loss);
BleuTerms bleu_error_terms(const BleuShape& shape, const ExpectedGain& loss);
struct BleuWeights {
  double more = 0;
  BleuTerms gain;
  BleuTerms error;
  double low = 0;  // quantiles at a BLEU of 0
  double high = 0;
  double low_good = 0;  // at a BLEU of 100
  double high_good = 0;
};
extern const std::array<BleuWeights, kMoreSteps.size()> kBleuWeights;

// `loss`: the expected gain of loss of one of kMoreSteps. A gain of BLEU is a rise, to 100 at most.
ExpectedGain expected_bleu(const BleuShape& shape, const ExpectedGain& loss);

}  // namespace reigen
