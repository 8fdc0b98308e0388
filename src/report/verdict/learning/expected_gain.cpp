#include "report/verdict/learning/expected_gain.h"

#include <algorithm>
#include <cmath>

namespace reigen {
namespace {

constexpr double kShort = 0.4;  // windows in ln(step): the last third of the steps
constexpr double kLong = 0.9;   // and the last 60%
constexpr size_t kFewestInShort = 4;
constexpr size_t kFewestInLong = 5;
// Distance of a smooth curve from its parabola at the last point, as a share of the bend: about.
constexpr double kThirdOrder = 0.05;
// No curve is trusted to fit better than this share of the loss.
constexpr double kLeastNoise = 0.0005;
constexpr double kMostGap = 0.9;
constexpr double kMostBleu = 100;
constexpr double kLeastBleuNoise = 0.05;

struct Line {
  double slope = 0;
  double end = 0;  // value at the last point
};

// Least squares of y(point) by x(point) over the points from `first` on.
template <class Point, class X, class Y>
Line line_through(const std::vector<Point>& points, size_t first, X x, Y y) {
  const auto count = static_cast<double>(points.size() - first);
  double mean_x = 0;
  double mean_y = 0;
  for (size_t i = first; i < points.size(); ++i) {
    mean_x += x(points[i]) / count;
    mean_y += y(points[i]) / count;
  }
  double product = 0;
  double square = 0;
  for (size_t i = first; i < points.size(); ++i) {
    const double off = x(points[i]) - mean_x;
    product += off * (y(points[i]) - mean_y);
    square += off * off;
  }
  Line line;
  line.slope = square > 0 ? product / square : 0;
  line.end = mean_y + line.slope * (x(points.back()) - mean_x);
  return line;
}

struct Parabola {
  double end = 0;   // value at the last point
  double bend = 0;  // second derivative
};

// Least squares by ln(step) over the points from `first` on: the line, and what is left of the
// squares of x and of y once their lines are taken out.
template <class Point, class X, class Y>
Parabola parabola_through(const std::vector<Point>& points, size_t first, X x, Y y) {
  const double last = x(points.back());
  const auto off = [&](const Point& p) { return x(p) - last; };
  const auto square = [&](const Point& p) { return off(p) * off(p); };
  const Line squares = line_through(points, first, off, square);
  const Line values = line_through(points, first, off, y);
  double product = 0;
  double weight = 0;
  for (size_t i = first; i < points.size(); ++i) {
    const double left = square(points[i]) - squares.end - squares.slope * off(points[i]);
    product += left * (y(points[i]) - values.end - values.slope * off(points[i]));
    weight += left * left;
  }
  const double factor = weight > 0 ? product / weight : 0;
  return {values.end - factor * squares.end, 2 * factor};
}

// The first point within `width` of the last, in ln(step), or so that there are `fewest`.
template <class Point>
size_t window_start(const std::vector<Point>& points, double width, size_t fewest) {
  const double from = points.back().step * std::exp(-width);
  size_t first = points.size() - std::min(fewest, points.size());
  while (first > 0 && points[first - 1].step >= from) --first;
  return first;
}

// The standard deviation of a value around the line through its two neighbours.
template <class Point, class Value>
double noise_of(const std::vector<Point>& points, size_t first, Value value) {
  double sum = 0;
  double count = 0;
  for (size_t i = std::max<size_t>(first, 1); i + 1 < points.size(); ++i) {
    const double before = points[i - 1].step;
    const double share = (points[i].step - before) / (points[i + 1].step - before);
    const double between =
        value(points[i - 1]) + share * (value(points[i + 1]) - value(points[i - 1]));
    const double off = value(points[i]) - between;
    sum += off * off / (1 + share * share + (1 - share) * (1 - share));
    count += 1;
  }
  return count > 0 ? std::sqrt(sum / count) : 0;
}

// Mean by ln(step), as the slopes are.
double mean_rate(const LearningCurve& curve, double from, double to) {
  constexpr int kSamples = 64;
  double sum = 0;
  for (int i = 0; i < kSamples; ++i) {
    sum += curve.rate(from * std::pow(to / from, (i + 0.5) / kSamples));
  }
  return sum / kSamples;
}

double highest_rate(const LearningCurve& curve, double last) {
  constexpr int kSamples = 256;
  double highest = 0;
  for (int i = 1; i <= kSamples; ++i) highest = std::max(highest, curve.rate(last * i / kSamples));
  return highest;
}

double ratio(double above, double below, double most) {
  if (below == 0) return 0;
  return std::clamp(above / below, -most, most);
}

template <size_t kTerms>
double sum_of(const std::array<double, kTerms>& weights, const std::array<double, kTerms>& terms) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += weights[i] * terms[i];
  return sum;
}

template <size_t kTerms>
double deviation_of(const std::array<double, kTerms>& weights,
                    const std::array<double, kTerms>& terms) {
  double variance = 0;
  for (size_t i = 0; i < kTerms; ++i) variance += weights[i] * terms[i] * terms[i];
  return std::sqrt(variance);
}

// BLEU nears its end of 100 ever more slowly.
double room_of(const BleuShape& s) { return 1 - std::clamp(s.level / kMostBleu, 0.0, 1.0); }

ExpectedGain gain_by(const GainWeights& weights, const CurveShape& shape, const RateAhead& ahead) {
  ExpectedGain g;
  g.gain = sum_of(weights.gain, gain_terms(shape, ahead));
  g.deviation = deviation_of(weights.error, error_terms(shape, ahead));
  g.low = g.gain + weights.low * g.deviation;
  g.high = g.gain + weights.high * g.deviation;
  return g;
}

}  // namespace

std::optional<CurveShape> shape_of(const LearningCurve& curve) {
  const auto& points = curve.points;
  if (points.size() < kFewestEvaluations) return std::nullopt;
  const size_t few = window_start(points, kShort, kFewestInShort);
  const size_t many = window_start(points, kLong, kFewestInLong);
  const auto time = [](const EvaluatedPoint& p) { return std::log(p.step); };
  const auto valid = [](const EvaluatedPoint& p) { return p.valid; };
  const auto train = [](const EvaluatedPoint& p) { return p.train; };
  const Parabola whole = parabola_through(points, many, time, valid);
  CurveShape s;
  s.step = points.back().step;
  s.valid = points.back().valid;
  s.level = whole.end;
  s.bend = whole.bend;
  s.noise = std::max(noise_of(points, many, valid), kLeastNoise * s.valid);
  s.short_slope = line_through(points, few, time, valid).slope;
  s.long_slope = line_through(points, many, time, valid).slope;
  s.short_train = line_through(points, few, time, train).slope;
  s.long_train = line_through(points, many, time, train).slope;
  // Text of the first epoch is as new to the model as validation text: a gap there is not
  // memorisation.
  s.gap = std::clamp(1 - points.back().train / s.valid, -kMostGap, kMostGap);
  s.epochs = points.back().epochs;
  s.rate = mean_rate(curve, points[few].step, s.step);
  s.peak = highest_rate(curve, s.step);
  return s;
}

RateAhead rate_ahead(const LearningCurve& curve, const CurveShape& shape, double more) {
  RateAhead ahead = {.span = std::log1p(more)};
  const double end = shape.step * (1 + more);
  ahead.known = 1 - 1 / std::max(1.0, shape.epochs * (1 + more));
  if (shape.rate <= 0) return ahead;
  ahead.amount = std::min(mean_rate(curve, shape.step + 1, end) / shape.rate, 2.0);
  ahead.fall = std::clamp(1 - curve.rate(end) / shape.rate, -1.0, 1.0);
  return ahead;
}

GainTerms gain_terms(const CurveShape& s, const RateAhead& ahead) {
  const double d = ahead.span * ahead.amount;
  const double steepening = ratio(s.short_slope, s.long_slope, 2);
  const double lost = ahead.span - d;  // of the span, to a lower rate
  const double fall = std::max(0.0, ahead.fall);
  const double decayed = s.peak > 0 ? 1 - s.rate / s.peak : 0;
  // The last evaluation is off the parabola by noise, or because the curve is none.
  const double off = s.valid - s.level;
  const double shape = kThirdOrder * s.bend;
  const double noisy = s.noise * s.noise / (s.noise * s.noise + shape * shape);
  return {off * noisy,
          off * (1 - noisy),
          -s.short_slope * d,
          -s.long_slope * d,
          -s.short_slope * steepening * d,
          -s.short_train * d,
          -s.long_train * d,
          -s.short_slope * lost,
          -s.long_slope * lost,
          -s.short_train * lost,
          s.level * fall,
          s.level * fall * decayed,
          -s.long_slope * fall,
          -s.short_slope * decayed * d,
          -s.bend * d,
          ahead.known * d * s.level * s.gap,
          -ahead.known * d * s.short_slope,
          -ahead.known * d * s.short_train,
          -ahead.known * d * s.short_train * s.gap,
          -ahead.known * d * s.short_slope * s.gap,
          ahead.known * d * s.level * s.gap * s.gap,
          -s.short_slope * d * std::log1p(s.level),
          -ahead.known * d * (s.short_train - s.short_slope) * std::max(0.0, s.gap)};
}

ErrorTerms error_terms(const CurveShape& s, const RateAhead& ahead) {
  const double d = ahead.span * ahead.amount;
  return {s.noise,
          s.short_slope * d,
          (s.short_slope - s.long_slope) * d,
          (s.short_slope - s.short_train) * d,
          s.long_slope * d,
          s.short_train * d,
          s.level * std::max(0.0, ahead.fall),
          s.level * d,
          s.noise * d / kShort,
          s.bend * d,
          ahead.known * s.level * s.gap * d,
          ahead.known * s.short_train * d,
          ahead.known * s.short_slope * d,
          s.short_slope * d * std::log1p(s.level)};
}

ExpectedGain expected_gain(const LearningCurve& curve, const CurveShape& shape, double more) {
  const RateAhead ahead = rate_ahead(curve, shape, more);
  const auto& all = kGainWeights;
  size_t upper = 0;
  while (upper + 1 < all.size() && all[upper].more < more) ++upper;
  ExpectedGain found = gain_by(all[upper], shape, ahead);
  if (upper > 0 && more < all[upper].more) {
    const ExpectedGain below = gain_by(all[upper - 1], shape, ahead);
    const double begin = std::log1p(all[upper - 1].more);
    const double share = (ahead.span - begin) / (std::log1p(all[upper].more) - begin);
    const auto between = [&](double ExpectedGain::*value) {
      found.*value = below.*value + share * (found.*value - below.*value);
    };
    between(&ExpectedGain::gain);
    between(&ExpectedGain::low);
    between(&ExpectedGain::high);
    between(&ExpectedGain::deviation);
  }
  found.more = more;
  return found;
}

std::optional<BleuShape> bleu_shape_of(const std::vector<BleuPoint>& points) {
  if (points.size() < kFewestEvaluations) return std::nullopt;
  const size_t few = window_start(points, kShort, kFewestInShort);
  const size_t many = window_start(points, kLong, kFewestInLong);
  const auto valid = [](const BleuPoint& p) { return p.valid; };
  const auto bleu = [](const BleuPoint& p) { return p.bleu; };
  const Line last = line_through(points, few, valid, bleu);
  BleuShape s;
  s.bleu = points.back().bleu;
  s.level = last.end;
  s.valid = points.back().valid;
  s.noise = std::max(noise_of(points, many, bleu), kLeastBleuNoise);
  s.short_slope = last.slope;
  s.long_slope = line_through(points, many, valid, bleu).slope;
  return s;
}

BleuTerms bleu_gain_terms(const BleuShape& s, const ExpectedGain& loss) {
  const double left = loss.gain * room_of(s);
  return {s.level - s.bleu, -s.short_slope * left, -s.long_slope * left, s.level * left / s.valid};
}

BleuTerms bleu_error_terms(const BleuShape& s, const ExpectedGain& loss) {
  const double room = room_of(s);
  return {s.noise, s.long_slope * loss.deviation, s.long_slope * loss.gain * room,
          std::sqrt(std::max(0.0, s.level)) * loss.gain * room / s.valid};
}

ExpectedGain expected_bleu(const BleuShape& shape, const ExpectedGain& loss) {
  size_t at = 0;
  while (at + 1 < kBleuWeights.size() && kBleuWeights[at].more < loss.more) ++at;
  const BleuWeights& weights = kBleuWeights[at];
  ExpectedGain g = {.more = loss.more};
  g.gain = sum_of(weights.gain, bleu_gain_terms(shape, loss));
  g.deviation = deviation_of(weights.error, bleu_error_terms(shape, loss));
  // A low BLEU may leap, a high one cannot.
  const double reached = std::clamp(shape.level / kMostBleu, 0.0, 1.0);
  g.low = g.gain + std::lerp(weights.low, weights.low_good, reached) * g.deviation;
  g.high = g.gain + std::lerp(weights.high, weights.high_good, reached) * g.deviation;
  for (double* value : {&g.gain, &g.low, &g.high}) {
    *value = std::clamp(*value, -shape.bleu, kMostBleu - shape.bleu);
  }
  return g;
}

}  // namespace reigen
