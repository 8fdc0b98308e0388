// Fits the weights of report/verdict/learning/expected_gain.h to the curves of real runs.
//
//   calibration.py ... --seed 1 --curves curves.txt    trains the runs and writes their curves
//   gain_fit loss curves.txt                       prints the rows of kGainWeights
//   gain_fit bleu curves.txt                       those of kBleuWeights, given the former
//   gain_fit check curves.txt                      how often intervals are right, for runs that
//                                                      had no part in the fit (one fifth at a time)
//
// Every evaluation of a run from the fifth on is a case; every run counts alike.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "report/verdict/learning/expected_gain.h"

namespace reigen {

namespace {

constexpr size_t kFolds = 5;
constexpr double kGoodBleu = 0.4;  // as a share of 100

struct Run {
  std::string name;
  std::string regime;
  LearningCurve whole;
  std::vector<BleuPoint> bleu;
};

template <size_t kGains, size_t kErrors>
struct CaseOf {
  size_t run = 0;
  bool copy = false;  // with noise
  double weight = 1;
  double came = 0;
  double scale = 1;
  double reached = 0;  // of BLEU, as a share of 100
  std::array<double, kGains> gain;
  std::array<double, kErrors> error;
};
using Case = CaseOf<kGainTerms, kErrorTerms>;
using BleuCase = CaseOf<kBleuTerms, kBleuTerms>;

// As in GainWeights and BleuWeights.
template <size_t kGains, size_t kErrors>
struct Fitted {
  std::array<double, kGains> gain = {};
  std::array<double, kErrors> error = {};
  double low = 0;
  double high = 0;
  double low_good = 0;
  double high_good = 0;

  std::pair<double, double> interval(const CaseOf<kGains, kErrors>& c) const {
    return {low + c.reached * (low_good - low), high + c.reached * (high_good - high)};
  }
};

std::vector<Run> read_runs(const char* path) {
  std::ifstream file(path);
  std::vector<Run> runs;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream head(line);
    std::string word;
    size_t evaluations = 0;
    size_t steps = 0;
    Run run;
    bool has_bleu = false;
    head >> run.name >> run.regime >> evaluations >> steps;
    for (size_t i = 0; i < evaluations; ++i) {
      EvaluatedPoint p;
      double bleu = 0;
      std::getline(file, line);
      std::istringstream(line) >> p.step >> p.valid >> p.train >> bleu >> p.epochs;
      run.whole.points.push_back(p);
      if (bleu > 0) has_bleu = true;
      run.bleu.push_back({p.step, p.valid, bleu});
    }
    if (!has_bleu) run.bleu.clear();
    std::vector<double> rates(steps);
    for (double& rate : rates) file >> rate;
    std::getline(file, line);
    run.whole.rate = [rates](double step) {
      const auto i = static_cast<size_t>(std::clamp(std::round(step), 1.0, double(rates.size())));
      return rates[i - 1];
    };
    runs.push_back(std::move(run));
  }
  return runs;
}

// Small runs have little noise in their evaluations. Copies with more teach the weights what noise
// looks like; a copy counts as a run of its own, in the same fold as its original.
std::vector<Run> with_noise(const std::vector<Run>& runs, double share, uint64_t seed) {
  std::vector<Run> noisy = runs;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (Run& run : noisy) {
    for (EvaluatedPoint& p : run.whole.points) p.valid *= 1 + share * normal(random);
  }
  return noisy;
}

// Between evaluations the loss is interpolated; nothing beyond the last.
template <class Point>
bool value_at(const std::vector<Point>& points, double Point::*value, double step, double& found) {
  for (size_t i = 1; i < points.size(); ++i) {
    if (points[i].step + 0.5 < step) continue;
    const double share = (step - points[i - 1].step) / (points[i].step - points[i - 1].step);
    found = points[i - 1].*value + share * (points[i].*value - points[i - 1].*value);
    return true;
  }
  return false;
}

LearningCurve prefix(const Run& run, size_t count) {
  LearningCurve curve;
  curve.rate = run.whole.rate;
  curve.points.assign(run.whole.points.begin(),
                      run.whole.points.begin() + static_cast<std::ptrdiff_t>(count));
  return curve;
}

// Every run counts alike.
template <class AnyCase>
void share_weight(std::vector<AnyCase>& cases, size_t begin) {
  for (size_t i = begin; i < cases.size(); ++i) {
    cases[i].weight = 1 / static_cast<double>(cases.size() - begin);
  }
}

std::vector<Case> cases_of(const std::vector<Run>& runs, double more) {
  std::vector<Case> all;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& points = runs[r].whole.points;
    const size_t begin = all.size();
    for (size_t n = kFewestEvaluations; n < points.size(); ++n) {
      double later = 0;
      if (!value_at(points, &EvaluatedPoint::valid, points[n - 1].step * (1 + more), later)) break;
      const LearningCurve curve = prefix(runs[r], n);
      const auto shape = shape_of(curve);
      if (!shape || !std::isfinite(later)) continue;
      const RateAhead ahead = rate_ahead(curve, *shape, more);
      if (ahead.amount < 0.02) continue;  // its schedule has ended
      Case c = {.run = r, .came = shape->valid - later};
      c.gain = gain_terms(*shape, ahead);
      c.error = error_terms(*shape, ahead);
      c.scale = shape->valid;
      all.push_back(c);
    }
    share_weight(all, begin);
  }
  return all;
}

std::vector<Case> cases_with_noise(const std::vector<Run>& runs, double more) {
  std::vector<Case> all = cases_of(runs, more);
  for (const double share : {0.002, 0.006}) {
    for (Case c : cases_of(with_noise(runs, share, 1), more)) {
      c.weight *= 0.25;
      c.copy = true;
      all.push_back(c);
    }
  }
  return all;
}

std::vector<BleuCase> bleu_cases_of(const std::vector<Run>& runs, size_t horizon) {
  const double more = kMoreSteps[horizon];
  std::vector<BleuCase> all;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& points = runs[r].bleu;
    const size_t begin = all.size();
    for (size_t n = kFewestEvaluations; n < points.size(); ++n) {
      double later = 0;
      if (!value_at(points, &BleuPoint::bleu, points[n - 1].step * (1 + more), later)) break;
      const LearningCurve curve = prefix(runs[r], n);
      const auto shape = shape_of(curve);
      const auto bleu =
          bleu_shape_of({points.begin(), points.begin() + static_cast<std::ptrdiff_t>(n)});
      if (!shape || !bleu || rate_ahead(curve, *shape, more).amount < 0.02) continue;
      const ExpectedGain loss = expected_gain(curve, *shape, more);
      BleuCase c = {.run = r, .came = later - bleu->bleu, .scale = 1};
      c.gain = bleu_gain_terms(*bleu, loss);
      c.error = bleu_error_terms(*bleu, loss);
      c.reached = bleu->level / 100;
      all.push_back(c);
    }
    share_weight(all, begin);
  }
  return all;
}

template <size_t kTerms>
double dot(const std::array<double, kTerms>& w, const std::array<double, kTerms>& x) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += w[i] * x[i];
  return sum;
}

template <size_t kTerms>
double variance_of(const std::array<double, kTerms>& w, const std::array<double, kTerms>& x) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += w[i] * x[i] * x[i];
  return std::max(sum, 1e-12);
}

// Weighted least squares with a ridge in proportion to each term's own scale.
template <size_t kGains, size_t kErrors>
std::array<double, kGains> solve(const std::vector<CaseOf<kGains, kErrors>>& cases,
                                 const std::vector<double>& importance, double ridge) {
  double a[kGains][kGains + 1] = {};
  for (size_t k = 0; k < cases.size(); ++k) {
    const auto& c = cases[k];
    for (size_t i = 0; i < kGains; ++i) {
      for (size_t j = 0; j < kGains; ++j) a[i][j] += importance[k] * c.gain[i] * c.gain[j];
      a[i][kGains] += importance[k] * c.gain[i] * c.came;
    }
  }
  for (size_t i = 0; i < kGains; ++i) a[i][i] = a[i][i] * (1 + ridge) + 1e-9;
  for (size_t i = 0; i < kGains; ++i) {  // symmetric and positive: no pivoting
    for (size_t r = 0; r < kGains; ++r) {
      if (r == i) continue;
      const double f = a[r][i] / a[i][i];
      for (size_t j = i; j <= kGains; ++j) a[r][j] -= f * a[i][j];
    }
  }
  std::array<double, kGains> w = {};
  for (size_t i = 0; i < kGains; ++i) w[i] = a[i][kGains] / a[i][i];
  return w;
}

// Weights of squares by multiplicative steps on the likelihood.
template <size_t kGains, size_t kErrors>
void fit_error(const std::vector<CaseOf<kGains, kErrors>>& cases,
               const std::array<double, kGains>& gain, std::array<double, kErrors>& theta) {
  for (int round = 0; round < 100; ++round) {
    std::array<double, kErrors> up = {};
    std::array<double, kErrors> down = {};
    for (const auto& c : cases) {
      const double off = c.came - dot(gain, c.gain);
      const double variance = variance_of(theta, c.error);
      // Large errors count less than a normal distribution would let them.
      const double square = std::min(off * off / variance, 9.0);
      for (size_t i = 0; i < kErrors; ++i) {
        const double x = c.error[i] * c.error[i];
        up[i] += c.weight * square * x / variance;
        down[i] += c.weight * x / variance;
      }
    }
    for (size_t i = 0; i < kErrors; ++i) {
      if (down[i] > 0) theta[i] *= std::sqrt(up[i] / down[i]);
      theta[i] = std::max(theta[i], 1e-9);
    }
  }
}

template <size_t kGains, size_t kErrors>
Fitted<kGains, kErrors> fit(const std::vector<CaseOf<kGains, kErrors>>& cases) {
  Fitted<kGains, kErrors> w;
  w.error.fill(0.05);
  std::vector<double> importance(cases.size());
  for (size_t k = 0; k < cases.size(); ++k) {
    importance[k] = cases[k].weight / variance_of(w.error, cases[k].error);
  }
  for (int round = 0; round < 10; ++round) {
    w.gain = solve(cases, importance, 0.01);
    fit_error(cases, w.gain, w.error);
    for (size_t k = 0; k < cases.size(); ++k) {
      const double variance = variance_of(w.error, cases[k].error);
      const double off = cases[k].came - dot(w.gain, cases[k].gain);
      importance[k] = cases[k].weight / (1 + off * off / (6 * variance)) / variance;
    }
  }
  return w;
}

// The 10% and 90% quantiles of values with weights.
std::pair<double, double> quantiles_of(std::vector<std::pair<double, double>> values) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const auto& [value, weight] : values) sum += weight;
  std::pair<double, double> found;
  double below = 0;
  for (const auto& [value, weight] : values) {
    if (below <= 0.1 * sum) found.first = value;
    if (below <= 0.9 * sum) found.second = value;
    below += weight;
  }
  return found;
}

// The quantiles of error / deviation among runs that had no part in the fit. A low BLEU may leap,
// a high one cannot: of good translations, the quantiles are different.
template <size_t kGains, size_t kErrors>
void fit_quantiles(const std::vector<CaseOf<kGains, kErrors>>& cases, Fitted<kGains, kErrors>& w) {
  std::vector<std::pair<double, double>> any;
  std::vector<std::pair<double, double>> good;
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<CaseOf<kGains, kErrors>> rest;
    for (const auto& c : cases) {
      if (c.run % kFolds != fold) rest.push_back(c);
    }
    const auto part = fit(rest);
    for (const auto& c : cases) {
      if (c.run % kFolds != fold) continue;
      const double off = c.came - dot(part.gain, c.gain);
      auto& group = c.reached < kGoodBleu ? any : good;
      group.emplace_back(off / std::sqrt(variance_of(part.error, c.error)), c.weight);
    }
  }
  std::tie(w.low, w.high) = quantiles_of(any);
  std::tie(w.low_good, w.high_good) = quantiles_of(good.empty() ? any : good);
}

struct Tally {
  double in = 0;
  double all = 0;
  double width = 0;
  double error = 0;
  double square = 0;
};

using Tallies = std::map<std::string, std::array<Tally, kMoreSteps.size()>>;

template <size_t kGains, size_t kErrors>
void check(const std::vector<Run>& runs, const std::vector<CaseOf<kGains, kErrors>>& cases,
           size_t horizon, Tallies& tallies) {
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<CaseOf<kGains, kErrors>> rest;
    std::vector<CaseOf<kGains, kErrors>> tested;
    for (const auto& c : cases) (c.run % kFolds == fold ? tested : rest).push_back(c);
    auto w = fit(rest);
    fit_quantiles(rest, w);
    for (const auto& c : tested) {
      const double deviation = std::sqrt(variance_of(w.error, c.error));
      const double off = c.came - dot(w.gain, c.gain);
      const auto [low, high] = w.interval(c);
      for (const std::string& name : {runs[c.run].regime + (c.copy ? " noisy" : ""),
                                      std::string(c.copy ? "all noisy" : "all")}) {
        Tally& t = tallies[name][horizon];
        t.in += off >= low * deviation && off <= high * deviation ? c.weight : 0;
        t.all += c.weight;
        t.width += c.weight * (high - low) * deviation / c.scale;
        t.error += c.weight * std::abs(off) / c.scale;
      }
    }
  }
}

void print(const char* title, const Tallies& tallies) {
  std::printf("%s\n", title);
  for (const auto& [name, row] : tallies) {
    std::printf("%-14s", name.c_str());
    for (const Tally& t : row) {
      std::printf("  %4.0f runs: %5.1f%% in, width %6.4f, off %6.4f", t.all, 100 * t.in / t.all,
                  t.width / t.all, t.error / t.all);
    }
    std::printf("\n");
  }
}

template <size_t kTerms>
void print_terms(const std::array<double, kTerms>& terms) {
  std::printf("{");
  for (size_t i = 0; i < kTerms; ++i) std::printf("%s%.4g", i ? ", " : "", terms[i]);
  std::printf("}");
}

template <size_t kGains, size_t kErrors>
void print_weights(double more, const std::vector<CaseOf<kGains, kErrors>>& cases) {
  Fitted<kGains, kErrors> w = fit(cases);
  fit_quantiles(cases, w);
  std::printf("    {.more = %g,\n     .gain = ", more);
  print_terms(w.gain);
  std::printf(",\n     .error = ");
  print_terms(w.error);
  std::printf(",\n     .low = %.3f,\n     .high = %.3f", w.low, w.high);
  if constexpr (kGains == kBleuTerms) {
    std::printf(",\n     .low_good = %.3f,\n     .high_good = %.3f", w.low_good, w.high_good);
  }
  std::printf("},\n");
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  using namespace reigen;
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode != "loss" && mode != "bleu" && mode != "check") {
    std::fprintf(stderr, "usage: gain_fit loss|bleu|check CURVES\n");
    return 2;
  }
  const std::vector<Run> runs = read_runs(argv[2]);
  if (mode == "check") {
    Tallies loss;
    Tallies bleu;
    for (size_t h = 0; h < kMoreSteps.size(); ++h) {
      check(runs, cases_with_noise(runs, kMoreSteps[h]), h, loss);
      check(runs, bleu_cases_of(runs, h), h, bleu);
    }
    print("loss (width and error as shares of it)", loss);
    print("BLEU", bleu);
    return 0;
  }
  for (size_t h = 0; h < kMoreSteps.size(); ++h) {
    if (mode == "loss") print_weights(kMoreSteps[h], cases_with_noise(runs, kMoreSteps[h]));
    if (mode == "bleu") print_weights(kMoreSteps[h], bleu_cases_of(runs, h));
  }
}
