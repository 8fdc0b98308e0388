// How a validation loss would go on: the curve c + a * step^-b through its evaluations, and what
// more steps would gain, with how sure that is.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace reigen {

using Points = std::vector<std::pair<double, double>>;  // step and value

struct ExpectedGain {
  double more = 0;  // 0.1: another tenth of the steps
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
  std::vector<ExpectedGain> gains;  // of another 10%, 50% and 100%
};

inline constexpr size_t kLeastEvaluations = 5;

// Nothing when there are fewer than kLeastEvaluations points, or no curve above zero fits them.
// Every exponent on a grid is fitted by least squares to the last half of the run and weighted with
// its likelihood: the interval holds what the exponents disagree about, the uncertainty of each
// fit, the evaluations' own noise, and that no run follows such a curve exactly
// (docs/design/verdicts.md has how often it held).
std::optional<LossCurve> fit_loss_curve(const Points& evaluations);

}  // namespace reigen
