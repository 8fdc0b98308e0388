#include "eval/significance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// How often each sentence is drawn in resample `number`, a pure function of that and the seed. Half
// of a 64-bit word times n, over 2^32: off from uniform by n / 2^32, under 0.03% for a million
// sentences.
void draw(uint64_t seed, uint64_t number, std::vector<uint32_t>& times) {
  const uint64_t n = times.size();
  std::fill(times.begin(), times.end(), 0);
  uint64_t state = mix64(seed ^ mix64(number));
  for (uint64_t i = 0; i < n; i += 2) {
    const uint64_t word = mix64(state);
    state += kGolden;
    ++times[(word >> 32) * n >> 32];
    if (i + 1 < n) ++times[(word & UINT32_MAX) * n >> 32];
  }
}

double score_drawn(const CountTable& table, const std::vector<uint32_t>& times,
                   std::vector<uint64_t>& sums) {
  sums.assign(table.width, 0);
  const uint32_t* row = table.counts.data();
  for (uint32_t weight : times) {
    for (size_t c = 0; c < table.width; ++c) sums[c] += static_cast<uint64_t>(weight) * row[c];
    row += table.width;
  }
  return score_of(table.metric, sums);
}

}  // namespace

std::vector<std::vector<double>> resample_scores(std::span<const CountTable> tables,
                                                 const Resampling& resampling) {
  std::vector<std::vector<double>> scores(tables.size());
  if (tables.empty()) return scores;
  const size_t sentences = tables[0].sentences();
  for (const CountTable& table : tables) {
    if (table.sentences() != sentences) {
      throw DataError(format("cannot compare {} sentences with {}", table.sentences(), sentences));
    }
  }
  std::vector<uint32_t> times(sentences);
  std::vector<uint64_t> sums;
  for (int64_t r = 0; r < resampling.resamples; ++r) {
    check_interrupt();
    draw(resampling.seed, static_cast<uint64_t>(r), times);
    for (size_t t = 0; t < tables.size(); ++t) {
      scores[t].push_back(score_drawn(tables[t], times, sums));
    }
  }
  return scores;
}

Interval interval_of(std::vector<double> scores) {
  std::sort(scores.begin(), scores.end());
  const size_t cut = scores.size() / 40;
  return {mean_of(scores), scores[cut], scores[scores.size() - cut - 1]};
}

Comparison compare(double system, double baseline, const std::vector<double>& system_resampled,
                   const std::vector<double>& baseline_resampled) {
  std::vector<double> differences(system_resampled.size());
  std::transform(system_resampled.begin(), system_resampled.end(), baseline_resampled.begin(),
                 differences.begin(), std::minus<>());
  const auto count = static_cast<double>(differences.size());
  Comparison result = {.difference = system - baseline, .interval = interval_of(differences)};
  auto better =
      std::count_if(differences.begin(), differences.end(), [](double d) { return d > 0; });
  result.share_better = static_cast<double>(better) / count;

  for (double& d : differences) d = std::abs(d);
  if (*std::max_element(differences.begin(), differences.end()) == 0) return result;
  // Differences by chance alone are taken to scatter around 0 as those of the resamples scatter
  // around their mean; how many are beyond the one observed?
  const double centre = mean_of(differences);
  const double observed = std::abs(result.difference);
  auto beyond = std::count_if(differences.begin(), differences.end(),
                              [&](double d) { return d - centre > observed; });
  result.p_value = (static_cast<double>(beyond) + 1) / (count + 1);
  return result;
}

}  // namespace reigen
