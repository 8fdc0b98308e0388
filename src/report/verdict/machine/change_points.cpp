#include "report/verdict/machine/change_points.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/statistics.h"

namespace reigen {
namespace {

using Values = std::span<const double>;

// Of the rank sum of two levels, in standard deviations.
constexpr double kSignificant = 4.5;
// Pairs of a value before and a value after the change of which the same side is larger.
constexpr double kSeparated = 0.95;
// The change, in standard deviations of the values around their level (by median deviations).
constexpr double kBeyondNoise = 3.5;
constexpr double kDeviationOfMedian = 1.4826;  // of a normal distribution
constexpr int kMostDepth = 5;

// From 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(Values values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t j = i; j < end; ++j) ranks[order[j]] = static_cast<double>(i + 1 + end) / 2;
    i = end;
  }
  return ranks;
}

// The standardised rank sum of the first `left` of `all` values.
double deviations(double rank_sum, size_t left, size_t all) {
  const auto n = static_cast<double>(left);
  const auto m = static_cast<double>(all - left);
  return std::abs(rank_sum - n * (n + m + 1) / 2) / std::sqrt(n * m * (n + m + 1) / 12);
}

// The split with the largest difference; 0 where the values are too few.
size_t best_split(Values values) {
  const std::vector<double> ranks = ranks_of(values);
  double sum = 0;
  double most = 0;
  size_t best = 0;
  for (size_t i = 0; i + kShortestLevel < values.size(); ++i) {
    sum += ranks[i];
    if (i + 1 < kShortestLevel) continue;
    const double now = deviations(sum, i + 1, values.size());
    if (now <= most) continue;
    most = now;
    best = i + 1;
  }
  return best;
}

void split(Values values, size_t offset, int depth, std::vector<size_t>& points) {
  if (depth == 0 || values.size() < 2 * kShortestLevel) return;
  const size_t at = best_split(values);
  if (at == 0) return;
  split(values.first(at), offset, depth - 1, points);
  points.push_back(offset + at);
  split(values.subspan(at), offset + at, depth - 1, points);
}

double median_of(Values values) { return median({values.begin(), values.end()}); }

// The noise of two levels around their medians, as logarithms.
double noise_of(Values before, Values after) {
  std::vector<double> off;
  for (const Values& level : {before, after}) {
    const double middle = median_of(level);
    for (const double value : level) off.push_back(std::abs(std::log(value / middle)));
  }
  return kDeviationOfMedian * median(std::move(off));
}

// From 1 on, two neighbouring levels differ.
double evidence(Values before, Values after) {
  std::vector<double> both(before.begin(), before.end());
  both.insert(both.end(), after.begin(), after.end());
  const std::vector<double> ranks = ranks_of(both);
  const auto end_of_before = ranks.begin() + static_cast<std::ptrdiff_t>(before.size());
  const double sum = std::accumulate(ranks.begin(), end_of_before, 0.0);
  const auto n = static_cast<double>(before.size());
  const auto m = static_cast<double>(after.size());
  const double larger = (sum - n * (n + 1) / 2) / (n * m);
  const double separated = std::max(larger, 1 - larger);
  const double change = std::abs(std::log(median_of(after) / median_of(before)));
  return std::min({deviations(sum, before.size(), both.size()) / kSignificant,
                   (separated - 0.5) / (kSeparated - 0.5), change / std::log(kLeastChange),
                   change / (kBeyondNoise * std::max(1e-9, noise_of(before, after)))});
}

}  // namespace

// Split at every possible change first, then join the levels that differ least: the two ends of a
// short phase in the middle are found although neither of them alone divides the run well.
std::vector<size_t> change_points(const std::vector<double>& values) {
  std::vector<size_t> ends;
  split(values, 0, kMostDepth, ends);
  ends.insert(ends.begin(), 0);
  ends.push_back(values.size());
  auto level = [&](size_t i) { return Values(values).subspan(ends[i], ends[i + 1] - ends[i]); };
  while (ends.size() > 2) {
    double least = INFINITY;
    size_t weakest = 0;
    for (size_t i = 1; i + 1 < ends.size(); ++i) {
      const double found = evidence(level(i - 1), level(i));
      if (found >= least) continue;
      least = found;
      weakest = i;
    }
    if (least >= 1) break;
    ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(weakest));
  }
  return {ends.begin() + 1, ends.end() - 1};
}

}  // namespace reigen
