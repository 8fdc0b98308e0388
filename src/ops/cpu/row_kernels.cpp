// Kernels of rows (norm, activation, dropout, cross-entropy) and of the optimizer's ranges.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/row_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants its own order of includes from here on.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>

#include "ops/cpu/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace reigen::cpu::HWY_NAMESPACE {

void DropRow(const RowDropout& dropout, const float* in, float* out, size_t n) {
  const Row row(n);
  DropFactors factors(dropout);
  for (size_t i = 0; i < n; i += row.lanes) {
    Vec x = row.load(in, i);
    row.store(factors.active() ? hn::Mul(x, factors.at(i)) : x, out, i);
  }
}

void NormRowForward(const NormRow& r) {
  const Row row(r.n);
  const F32 d;
  const float* h = r.x;
  Vec total = hn::Zero(d);
  if (r.branch != nullptr) {
    DropFactors factors(r.dropout);
    for (size_t i = 0; i < r.n; i += row.lanes) {
      Vec y = row.load(r.branch, i);
      if (r.bias != nullptr) y = hn::Add(y, row.load(r.bias, i));
      if (factors.active()) y = hn::Mul(y, factors.at(i));
      y = hn::Add(y, row.load(r.x, i));
      row.store(y, r.h, i);
      total = hn::Add(total, y);
    }
    h = r.h;
  } else {
    for (size_t i = 0; i < r.n; i += row.lanes) total = hn::Add(total, row.load(h, i));
  }
  const float mean = sum_lanes(total) / static_cast<float>(r.n);
  const Vec center = hn::Set(d, mean);
  Vec squares = hn::Zero(d);
  for (size_t i = 0; i < r.n; i += row.lanes) {
    const Vec x = row.inside(hn::Sub(row.load(h, i), center), i);
    squares = hn::MulAdd(x, x, squares);
  }
  const float variance = sum_lanes(squares) / static_cast<float>(r.n);
  const float inverse = 1.0F / std::sqrt(variance + 1e-5F);
  const Vec factor = hn::Set(d, inverse);
  for (size_t i = 0; i < r.n; i += row.lanes) {
    const Vec x = hn::Mul(hn::Sub(row.load(h, i), center), factor);
    row.store(hn::MulAdd(x, row.load(r.gain, i), row.load(r.shift, i)), r.out, i);
  }
  r.stats[0] = mean;
  r.stats[1] = inverse;
}

void NormRowBackward(const NormRow& r, const float* h, const NormRowGrad& g) {
  const Row row(r.n);
  const F32 d;
  const Vec center = hn::Set(d, r.stats[0]);
  const Vec inverse = hn::Set(d, r.stats[1]);
  Vec sum = hn::Zero(d);
  Vec sum_x = hn::Zero(d);
  for (size_t i = 0; i < r.n; i += row.lanes) {
    const Vec dn = row.load(g.dn, i);
    const Vec x = hn::Mul(hn::Sub(row.load(h, i), center), inverse);
    row.store(hn::MulAdd(dn, x, row.load(g.dgain, i)), g.dgain, i);
    row.store(hn::Add(dn, row.load(g.dshift, i)), g.dshift, i);
    const Vec dy = hn::Mul(dn, row.load(r.gain, i));  // 0 past the end, as dn is
    sum = hn::Add(sum, dy);
    sum_x = hn::MulAdd(dy, x, sum_x);
  }
  const Vec mean = hn::Set(d, sum_lanes(sum) / static_cast<float>(r.n));
  const Vec mean_x = hn::Set(d, sum_lanes(sum_x) / static_cast<float>(r.n));
  DropFactors factors(r.dropout);
  for (size_t i = 0; i < r.n; i += row.lanes) {
    const Vec x = hn::Mul(hn::Sub(row.load(h, i), center), inverse);
    const Vec dy = hn::Mul(row.load(g.dn, i), row.load(r.gain, i));
    Vec dx = hn::Mul(inverse, hn::Sub(hn::Sub(dy, mean), hn::Mul(x, mean_x)));
    if (g.dh != nullptr) dx = hn::Add(dx, row.load(g.dh, i));
    row.store(dx, g.dx, i);
    if (g.dbranch == nullptr) continue;
    if (factors.active()) dx = hn::Mul(dx, factors.at(i));
    row.store(dx, g.dbranch, i);
    if (g.dbias != nullptr) row.store(hn::Add(dx, row.load(g.dbias, i)), g.dbias, i);
  }
}

HWY_INLINE Vec Sigmoid(Vec x) {
  const F32 d;
  const Vec one = hn::Set(d, 1.0F);
  // Highway's Exp is undefined above 104; gelu's inner value passes that below x = -10.6.
  const Vec bounded = hn::Min(hn::Neg(x), hn::Set(d, 88.0F));
  return hn::Div(one, hn::Add(one, hn::Exp(d, bounded)));
}

// gelu in its tanh form, x * sigmoid(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3).
HWY_INLINE Vec GeluInner(Vec x) {
  const F32 d;
  const Vec cube = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(d, 0.044715F)));
  return hn::Mul(hn::Set(d, 2 * 0.7978845608F), hn::Add(x, cube));
}

// Density of the standard normal distribution.
HWY_INLINE Vec NormalDensity(Vec x) {
  const F32 d;
  return hn::Mul(hn::Set(d, 0.3989422804F), hn::Exp(d, hn::Mul(hn::Set(d, -0.5F), hn::Mul(x, x))));
}

// Its distribution function, by formula 26.2.17 of Abramowitz and Stegun: within 7.5e-8.
HWY_INLINE Vec NormalDistribution(Vec x) {
  const F32 d;
  const Vec one = hn::Set(d, 1.0F);
  const Vec t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.2316419F), hn::Abs(x), one));
  Vec p = hn::Set(d, 1.330274429F);
  p = hn::MulAdd(p, t, hn::Set(d, -1.821255978F));
  p = hn::MulAdd(p, t, hn::Set(d, 1.781477937F));
  p = hn::MulAdd(p, t, hn::Set(d, -0.356563782F));
  p = hn::MulAdd(p, t, hn::Set(d, 0.319381530F));
  const Vec upper = hn::Mul(NormalDensity(x), hn::Mul(p, t));  // beyond |x|
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), upper, hn::Sub(one, upper));
}

HWY_INLINE Vec Activate(ActivationKind kind, Vec x) {
  if (kind == ActivationKind::kRelu) return hn::Max(x, hn::Zero(F32()));
  if (kind == ActivationKind::kGeluErf) return hn::Mul(x, NormalDistribution(x));
  return hn::Mul(x, Sigmoid(kind == ActivationKind::kGelu ? GeluInner(x) : x));
}

HWY_INLINE Vec ActivationSlope(ActivationKind kind, Vec x) {
  const F32 d;
  const Vec one = hn::Set(d, 1.0F);
  if (kind == ActivationKind::kRelu) return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), one);
  if (kind == ActivationKind::kGeluErf) {
    return hn::MulAdd(x, NormalDensity(x), NormalDistribution(x));
  }
  Vec inner_slope = one;
  Vec s;
  if (kind == ActivationKind::kGelu) {
    s = Sigmoid(GeluInner(x));
    inner_slope = hn::Mul(hn::Set(d, 2 * 0.7978845608F),
                          hn::MulAdd(hn::Set(d, 3 * 0.044715F), hn::Mul(x, x), one));
  } else {
    s = Sigmoid(x);
  }
  // d/dx [x s(u(x))] = s + x s (1 - s) u'(x)
  return hn::MulAdd(hn::Mul(x, hn::Mul(s, hn::Sub(one, s))), inner_slope, s);
}

void ActivationRowForward(ActivationKind kind, const float* z, const float* bias,
                          const RowDropout& dropout, float* out, size_t n) {
  const Row row(n);
  DropFactors factors(dropout);
  for (size_t i = 0; i < n; i += row.lanes) {
    Vec y = Activate(kind, hn::Add(row.load(z, i), row.load(bias, i)));
    if (factors.active()) y = hn::Mul(y, factors.at(i));
    row.store(y, out, i);
  }
}

void ActivationRowBackward(ActivationKind kind, const float* z, const float* bias,
                           const RowDropout& dropout, const float* dout, float* dz, float* dbias,
                           size_t n) {
  const Row row(n);
  DropFactors factors(dropout);
  for (size_t i = 0; i < n; i += row.lanes) {
    const Vec slope = ActivationSlope(kind, hn::Add(row.load(z, i), row.load(bias, i)));
    Vec g = hn::Mul(row.load(dout, i), slope);
    if (factors.active()) g = hn::Mul(g, factors.at(i));
    row.store(g, dz, i);
    row.store(hn::Add(g, row.load(dbias, i)), dbias, i);
  }
}

void AddRow(const float* in, float* out, size_t n) {
  const Row row(n);
  for (size_t i = 0; i < n; i += row.lanes) {
    row.store(hn::Add(row.load(in, i), row.load(out, i)), out, i);
  }
}

void ScaleRow(const float* in, float scale, const float* add, float* out, size_t n) {
  const Row row(n);
  const Vec s = hn::Set(F32(), scale);
  for (size_t i = 0; i < n; i += row.lanes) {
    row.store(hn::MulAdd(s, row.load(in, i), row.load(add, i)), out, i);
  }
}

void AddScaledRow(const float* in, float scale, float* out, size_t n) {
  ScaleRow(in, scale, out, out, n);
}

RowLoss CrossEntropy(const CrossEntropyRow& r, float* logits, size_t n) {
  const Row row(n);
  const F32 d;
  Vec most = hn::Set(d, logits[0]);
  Vec plain = hn::Zero(d);
  for (size_t i = 0; i < n; i += row.lanes) {
    const Vec z = row.load(logits, i);
    if (HWY_LIKELY(i + row.lanes <= n)) {
      most = hn::Max(most, z);
    } else {
      most = hn::Max(most, hn::IfThenElse(hn::FirstN(d, n - i), z, most));
    }
    plain = hn::Add(plain, z);
  }
  const float peak = hn::GetLane(hn::MaxOfLanes(d, most));
  const Vec top = hn::Set(d, peak);
  const float target = logits[r.target];
  Vec total = hn::Zero(d);
  for (size_t i = 0; i < n; i += row.lanes) {
    const Vec e = row.inside(hn::Exp(d, hn::Sub(row.load(logits, i), top)), i);
    total = hn::Add(total, e);
    if (r.gradient) row.store(e, logits, i);
  }
  const float sum = sum_lanes(total);
  const double log_sum = static_cast<double>(peak) + std::log(static_cast<double>(sum));
  const double mean = static_cast<double>(sum_lanes(plain)) / static_cast<double>(n);
  RowLoss loss;
  loss.nll = log_sum - target;
  loss.smoothed = (1.0 - r.smoothing) * loss.nll + r.smoothing * (log_sum - mean);
  if (r.gradient) {
    const Vec factor = hn::Set(d, r.scale / sum);
    const Vec even = hn::Set(d, -r.scale * r.smoothing / static_cast<float>(n));
    for (size_t i = 0; i < n; i += row.lanes) {
      row.store(hn::MulAdd(row.load(logits, i), factor, even), logits, i);
    }
    logits[r.target] -= r.scale * (1 - r.smoothing);
  }
  return loss;
}

double SumOfSquares(const float* x, size_t n) {
  // Blocks of 4,096 in fp32 lanes, blocks summed in double.
  const F32 d;
  double total = 0;
  for (size_t begin = 0; begin < n; begin += 4096) {
    const size_t end = std::min(n, begin + 4096);
    const Row row(end);
    Vec sum = hn::Zero(d);
    for (size_t i = begin; i < end; i += row.lanes) {
      const Vec v = row.load(x, i);
      sum = hn::MulAdd(v, v, sum);
    }
    total += sum_lanes(sum);
  }
  return total;
}

void AdamRange(const AdamStep& o, const float* g, float* p, float* m, float* v, size_t n) {
  const Row row(n);
  const F32 d;
  const double step = static_cast<double>(o.step);
  const double correct1 = 1 - std::pow(o.beta1, step);
  const double correct2 = 1 - std::pow(o.beta2, step);
  auto set = [&](double x) { return hn::Set(d, static_cast<float>(x)); };
  const Vec beta1 = set(o.beta1), rest1 = set(1 - o.beta1);
  const Vec beta2 = set(o.beta2), rest2 = set(1 - o.beta2);
  const Vec scale = set(o.gradient_scale), epsilon = set(o.epsilon);
  const Vec rate = set(o.rate / correct1), root = set(1 / std::sqrt(correct2));
  const Vec keep = set(1 - o.rate * o.weight_decay);
  for (size_t i = 0; i < n; i += row.lanes) {
    const Vec grad = hn::Mul(row.load(g, i), scale);
    const Vec m1 = hn::MulAdd(rest1, grad, hn::Mul(beta1, row.load(m, i)));
    const Vec v1 = hn::MulAdd(rest2, hn::Mul(grad, grad), hn::Mul(beta2, row.load(v, i)));
    row.store(m1, m, i);
    row.store(v1, v, i);
    const Vec update = hn::Div(m1, hn::MulAdd(hn::Sqrt(v1), root, epsilon));
    row.store(hn::NegMulAdd(rate, update, hn::Mul(keep, row.load(p, i))), p, i);
  }
}

}  // namespace reigen::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reigen::cpu {

HWY_EXPORT(DropRow);
HWY_EXPORT(NormRowForward);
HWY_EXPORT(NormRowBackward);
HWY_EXPORT(ActivationRowForward);
HWY_EXPORT(ActivationRowBackward);
HWY_EXPORT(AddRow);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(AddScaledRow);
HWY_EXPORT(CrossEntropy);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(AdamRange);

RowDropout row_dropout(const Dropout& dropout, int64_t row, uint32_t first_block) {
  RowDropout out;
  if (!dropout.active()) return out;
  auto key = philox_key(dropout.site);
  auto counter = philox_counter(dropout.site, dropout.tokens[row], first_block);
  std::copy(key.begin(), key.end(), out.key);
  std::copy(counter.begin(), counter.end(), out.counter);
  out.threshold = drop_threshold(dropout.rate);
  out.scale = dropout.scale();
  return out;
}

void drop_row(const RowDropout& dropout, const float* in, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(DropRow)(dropout, in, out, n);
}
void norm_row_forward(const NormRow& row) { HWY_DYNAMIC_DISPATCH(NormRowForward)(row); }
void norm_row_backward(const NormRow& row, const float* h, const NormRowGrad& grad) {
  HWY_DYNAMIC_DISPATCH(NormRowBackward)(row, h, grad);
}
void activation_row_forward(ActivationKind kind, const float* z, const float* bias,
                            const RowDropout& dropout, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(ActivationRowForward)(kind, z, bias, dropout, out, n);
}
void activation_row_backward(ActivationKind kind, const float* z, const float* bias,
                             const RowDropout& dropout, const float* dout, float* dz, float* dbias,
                             size_t n) {
  HWY_DYNAMIC_DISPATCH(ActivationRowBackward)(kind, z, bias, dropout, dout, dz, dbias, n);
}
void add_row(const float* in, float* out, size_t n) { HWY_DYNAMIC_DISPATCH(AddRow)(in, out, n); }
void scale_row(const float* in, float scale, const float* add, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(ScaleRow)(in, scale, add, out, n);
}
void add_scaled_row(const float* in, float scale, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddScaledRow)(in, scale, out, n);
}
RowLoss cross_entropy_row(const CrossEntropyRow& row, float* logits, size_t n) {
  return HWY_DYNAMIC_DISPATCH(CrossEntropy)(row, logits, n);
}
double sum_of_squares(const float* x, size_t n) { return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n); }
void adam_range(const AdamStep& options, const float* g, float* p, float* m, float* v, size_t n) {
  HWY_DYNAMIC_DISPATCH(AdamRange)(options, g, p, m, v, n);
}

}  // namespace reigen::cpu
#endif
