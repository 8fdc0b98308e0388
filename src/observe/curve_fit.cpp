#include "observe/curve_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace reigen {
namespace {

constexpr std::array kMore = {0.1, 0.5, 1.0};
constexpr double kEighty = 1.2816;  // standard deviations to each side that hold 80%
// Successive evaluations err alike (same sentences, nearby weights): fewer independent ones.
constexpr double kIndependent = 0.5;
// No curve is trusted to fit better than this share of the loss.
constexpr double kLeastSpread = 0.0005;

// value = floor + scale * x, by least squares, with the covariance of the two.
struct Line {
  double floor = 0;
  double scale = 0;
  double squares = 0;  // of what is left
  double mean_x = 0;
  double spread_x = 0;  // sum of squares around the mean
};

Line fit_line(const Points& points, double power) {
  const auto n = static_cast<double>(points.size());
  double sum_x = 0;
  double sum_y = 0;
  for (const auto& [step, value] : points) {
    sum_x += std::pow(step, -power);
    sum_y += value;
  }
  Line line;
  line.mean_x = sum_x / n;
  double product = 0;
  for (const auto& [step, value] : points) {
    const double x = std::pow(step, -power) - line.mean_x;
    line.spread_x += x * x;
    product += x * (value - sum_y / n);
  }
  line.scale = line.spread_x > 0 ? product / line.spread_x : 0;
  line.floor = sum_y / n - line.scale * line.mean_x;
  for (const auto& [step, value] : points) {
    const double off = value - line.floor - line.scale * std::pow(step, -power);
    line.squares += off * off;
  }
  return line;
}

// The early part of a run (warm-up, a model that learns what words are frequent) follows other
// laws.
Points late_part(const Points& all) {
  Points late;
  for (const auto& point : all) {
    if (point.first >= 0.2 * all.back().first) late.push_back(point);
  }
  const size_t least = std::min(all.size(), kLeastEvaluations);
  return late.size() >= least ? late : Points(all.end() - static_cast<long>(least), all.end());
}

}  // namespace

double LossCurve::at(double step) const { return floor + scale * std::pow(step, -power); }

std::optional<LossCurve> fit_loss_curve(const Points& evaluations) {
  if (evaluations.size() < kLeastEvaluations) return std::nullopt;
  const Points points = late_part(evaluations);
  const double last = points.back().first;
  std::vector<std::pair<double, Line>> fits;
  for (double power = 0.05; power <= 2.0; power *= 1.1) {
    Line line = fit_line(points, power);
    if (line.floor < 0) continue;  // no loss is below zero
    fits.emplace_back(power, line);
  }
  if (fits.empty()) return std::nullopt;
  const auto best = std::min_element(fits.begin(), fits.end(), [](const auto& a, const auto& b) {
    return a.second.squares < b.second.squares;
  });
  const double freedom = std::max(1.0, static_cast<double>(points.size()) - 3);
  const double least = kLeastSpread * points.back().second;
  const double variance = std::max(best->second.squares / freedom, least * least);
  LossCurve curve = {best->second.floor, best->second.scale, best->first, std::sqrt(variance), {}};
  for (const double more : kMore) {
    double weights = 0;
    double first = 0;
    double second = 0;
    for (const auto& [power, line] : fits) {
      const double weight =
          std::exp(-kIndependent * (line.squares - best->second.squares) / (2 * variance));
      const double distance = std::pow(last, -power) - std::pow(last * (1 + more), -power);
      const double gain = line.scale * distance;
      const double own =
          line.spread_x > 0 ? variance / kIndependent * distance * distance / line.spread_x : 0;
      weights += weight;
      first += weight * gain;
      second += weight * (gain * gain + own);
    }
    const double gain = first / weights;
    const double deviation =
        std::sqrt(std::max(0.0, second / weights - gain * gain) + 2 * variance);
    curve.gains.push_back({more, gain, gain - kEighty * deviation, gain + kEighty * deviation});
  }
  return curve;
}

}  // namespace reigen
