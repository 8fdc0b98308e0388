// Extrapolates a validation loss: the curve c + a * step^-b through its evaluations, and the gain
// expected from more steps, with an 80% interval.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace reigen {

using Points = std::vector<std::pair<double, double>>;  // step and value

struct ExpectedGain {
  double more = 0;  // 0.1: 10% more steps
  double gain = 0;  // of loss, from the curve's value at the last evaluation
  double low = 0;   // the 80% interval
  double high = 0;
};

struct LossCurve {
  double floor = 0;   // c
  double scale = 0;   // a
  double power = 0;   // b
  double spread = 0;  // standard deviation of the evaluations around the curve
  double at(double step) const;
  std::vector<ExpectedGain> gains;  // of 10%, 50% and 100% more steps
};

inline constexpr size_t kFewestEvaluations = 5;

// Nothing when there are fewer than kFewestEvaluations points, or no curve above zero fits them.
// Every exponent on a grid is fitted by least squares to the last half of the run and weighted with
// its likelihood. The interval covers the disagreement between exponents, the uncertainty of each
// fit, the noise of the evaluations, and the error of the model, because no run follows a power law
// exactly (docs/design/verdicts.md: how often the interval was right).
std::optional<LossCurve> fit_loss_curve(const Points& evaluations);

}  // namespace reigen
