#include "decode/calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace reigen {
namespace {

constexpr size_t kFewestSentences = 100;
constexpr size_t kMostKnots = 20;
constexpr size_t kFewestInKnot = 25;
constexpr double kTail = 0.1;  // of the sentences of a knot, on each side of its interval

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

// Pools neighbours that fall until all values rise; all have the same weight.
void make_rising(std::vector<double>& values) {
  struct Block {
    double sum;
    size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Block> blocks;
  for (const double value : values) {
    blocks.push_back({value, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back() = {blocks.back().sum + last.sum, blocks.back().count + last.count};
    }
  }
  size_t at = 0;
  for (const Block& block : blocks) {
    for (size_t i = 0; i < block.count; ++i) values[at++] = block.mean();
  }
}

}  // namespace

std::optional<Calibration> Calibration::fit(std::span<const double> log_probabilities,
                                            std::span<const double> chrf) {
  const size_t count = log_probabilities.size();
  if (count < kFewestSentences) return std::nullopt;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return log_probabilities[a] < log_probabilities[b]; });
  const size_t knots = std::min(kMostKnots, count / kFewestInKnot);
  Calibration fitted;
  std::vector<double> means;
  std::vector<double> lows;
  std::vector<double> highs;
  for (size_t k = 0; k < knots; ++k) {
    std::vector<double> values;
    double sum = 0;
    for (size_t i = k * count / knots; i < (k + 1) * count / knots; ++i) {
      sum += log_probabilities[order[i]];
      values.push_back(chrf[order[i]]);
    }
    std::sort(values.begin(), values.end());
    const auto in_knot = static_cast<double>(values.size());
    fitted.knots_.push_back({sum / in_knot, {}});
    means.push_back(std::accumulate(values.begin(), values.end(), 0.0) / in_knot);
    lows.push_back(quantile(values, kTail));
    highs.push_back(quantile(values, 1 - kTail));
  }
  for (std::vector<double>* values : {&means, &lows, &highs}) make_rising(*values);
  for (size_t k = 0; k < knots; ++k) fitted.knots_[k].values = {means[k], lows[k], highs[k]};
  return fitted;
}

ExpectedChrf Calibration::at(double log_probability) const {
  const auto above =
      std::upper_bound(knots_.begin(), knots_.end(), log_probability,
                       [](double value, const Knot& knot) { return value < knot.log_probability; });
  if (above == knots_.begin()) return knots_.front().values;
  if (above == knots_.end()) return knots_.back().values;
  const Knot& below = *(above - 1);
  const double width = above->log_probability - below.log_probability;
  const double share = width > 0 ? (log_probability - below.log_probability) / width : 0;
  return {std::lerp(below.values.expected, above->values.expected, share),
          std::lerp(below.values.low, above->values.low, share),
          std::lerp(below.values.high, above->values.high, share)};
}

Json Calibration::to_json() const {
  Json json = Json::array();
  for (const Knot& knot : knots_) {
    json.push_back({{"log_probability", knot.log_probability},
                    {"chrf", knot.values.expected},
                    {"low", knot.values.low},
                    {"high", knot.values.high}});
  }
  return json;
}

Calibration Calibration::from_json(const JsonView& json) {
  Calibration read;
  for (const JsonView& knot : json.elements()) {
    read.knots_.push_back(
        {knot.at("log_probability"), {knot.at("chrf"), knot.at("low"), knot.at("high")}});
  }
  const bool rising = std::is_sorted(
      read.knots_.begin(), read.knots_.end(),
      [](const Knot& a, const Knot& b) { return a.log_probability < b.log_probability; });
  if (read.knots_.empty() || !rising) json.refuse("knots by rising log_probability");
  return read;
}

}  // namespace reigen
