#include "report/verdict/curve_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace reigen {
namespace {

constexpr std::array kMore = {0.1, 0.5, 1.0};
constexpr double kEighty = 1.2816;  // standard deviations to each side that hold 80%
// Errors of successive evaluations are correlated (same sentences, similar weights): each counts as
// half an independent one.
constexpr double kIndependent = 0.5;
// No curve is trusted to fit better than this share of the loss,
constexpr double kLeastSpread = 0.0005;
// nor to predict a gain better than this share of the gain: real losses are no power laws, and the
// learning rate keeps changing. Both from bench/observe/calibration.py.
constexpr double kModelError = 0.2;

struct Weighted {
  double step = 0;
  double value = 0;
  double weight = 1;
};

// value = floor + scale * step^-power, by least squares.
struct Line {
  double power = 0;
  double floor = 0;
  double scale = 0;
  double squares = 0;   // sum of squared residuals
  double spread_x = 0;  // sum of squares around the mean
};

Line fit_line(const std::vector<Weighted>& points, double power) {
  double weights = 0;
  double mean_x = 0;
  double mean_y = 0;
  for (const Weighted& p : points) {
    weights += p.weight;
    mean_x += p.weight * std::pow(p.step, -power);
    mean_y += p.weight * p.value;
  }
  mean_x /= weights;
  mean_y /= weights;
  Line line = {.power = power};
  double product = 0;
  for (const Weighted& p : points) {
    const double x = std::pow(p.step, -power) - mean_x;
    line.spread_x += p.weight * x * x;
    product += p.weight * x * (p.value - mean_y);
  }
  line.scale = line.spread_x > 0 ? product / line.spread_x : 0;
  line.floor = mean_y - line.scale * mean_x;
  for (const Weighted& p : points) {
    const double off = p.value - line.floor - line.scale * std::pow(p.step, -power);
    line.squares += p.weight * off * off;
  }
  return line;
}

// The early part of a run (warm-up, learning word frequencies) follows different laws: only the
// last half counts, later evaluations more than earlier ones.
std::vector<Weighted> late_part(const Points& all) {
  const double last = all.back().first;
  std::vector<Weighted> late;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [step, value] = all[i];
    if (step < last / 2 && all.size() - i > kFewestEvaluations) continue;
    late.push_back({step, value, (step / last) * (step / last)});
  }
  double weights = 0;
  for (const Weighted& p : late) weights += p.weight;
  for (Weighted& p : late) p.weight *= static_cast<double>(late.size()) / weights;
  return late;
}

// The gain of `more` times as many further steps by all lines, each weighted with its likelihood.
ExpectedGain gain_of(const std::vector<Line>& lines, double least_squares, double variance,
                     double last, double more) {
  double weights = 0;
  double first = 0;
  double second = 0;
  for (const Line& line : lines) {
    const double weight = std::exp(-kIndependent * (line.squares - least_squares) / (2 * variance));
    const double distance = std::pow(last, -line.power) - std::pow(last * (1 + more), -line.power);
    const double gain = line.scale * distance;
    const double own =
        line.spread_x > 0 ? variance / kIndependent * distance * distance / line.spread_x : 0;
    weights += weight;
    first += weight * gain;
    second += weight * (gain * gain + own);
  }
  const double gain = first / weights;
  const double disagreement = std::max(0.0, second / weights - gain * gain);
  const double model = kModelError * gain;
  // Both ends of a gain are evaluations, each with its own noise.
  const double deviation = std::sqrt(disagreement + 2 * variance + model * model);
  return {more, gain, gain - kEighty * deviation, gain + kEighty * deviation};
}

}  // namespace

double LossCurve::at(double step) const { return floor + scale * std::pow(step, -power); }

std::optional<LossCurve> fit_loss_curve(const Points& evaluations) {
  if (evaluations.size() < kFewestEvaluations) return std::nullopt;
  const std::vector<Weighted> points = late_part(evaluations);
  std::vector<Line> lines;
  for (double power = 0.05; power <= 2.0; power *= 1.1) {
    const Line line = fit_line(points, power);
    if (line.floor >= 0) lines.push_back(line);  // no loss is below zero
  }
  if (lines.empty()) return std::nullopt;
  const Line best = *std::min_element(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.squares < b.squares;
  });
  const double freedom = std::max(1.0, static_cast<double>(points.size()) - 3);
  const double least = kLeastSpread * points.back().value;
  const double variance = std::max(best.squares / freedom, least * least);
  LossCurve curve = {best.floor, best.scale, best.power, std::sqrt(variance), {}};
  for (const double more : kMore) {
    curve.gains.push_back(gain_of(lines, best.squares, variance, evaluations.back().first, more));
  }
  return curve;
}

}  // namespace reigen
