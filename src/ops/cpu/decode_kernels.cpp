// Rows of decoding: attention of one query over picked cache rows, and a row's best logits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/decode_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants its own order of includes from here on.
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace reigen::cpu::HWY_NAMESPACE {

// Rows of a cache come from memory in any order. All heads of a row are read together, one row
// after the other, with the row after the next on its way.
HWY_INLINE void FetchRow(const PickedRow& t, const float* rows, size_t stride, size_t j) {
  constexpr size_t kAhead = 2;
  constexpr size_t kLine = 64 / sizeof(float);
  if (j + kAhead >= t.count) return;
  const float* row = rows + t.picks[j + kAhead] * stride;
  for (size_t i = 0; i < t.heads * t.width; i += kLine) hwy::Prefetch(row + i);
}

// Products of kHeads heads of a query with those of a key: their chains of additions are
// independent.
template <size_t kHeads>
HWY_INLINE void Dots(const Row& row, const float* q, const float* key, float* scores,
                     size_t stride) {
  Vec sum[kHeads];
  for (auto& s : sum) s = hn::Zero(row.d);
  for (size_t i = 0; i < row.n; i += row.lanes) {
    for (size_t h = 0; h < kHeads; ++h) {
      sum[h] = hn::MulAdd(row.load(q + h * row.n, i), row.load(key + h * row.n, i), sum[h]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) scores[h * stride] = sum_lanes(sum[h]);
}

// scores [heads, count]
void PickedScores(const PickedRow& t, float* scores) {
  const Row row(t.width);
  for (size_t j = 0; j < t.count; ++j) {
    FetchRow(t, t.k, t.k_stride, j);
    const float* key = t.k + t.picks[j] * t.k_stride;
    size_t h = 0;
    for (; h + 4 <= t.heads; h += 4) {
      Dots<4>(row, t.q + h * t.width, key + h * t.width, scores + h * t.count + j, t.count);
    }
    for (; h < t.heads; ++h) {
      Dots<1>(row, t.q + h * t.width, key + h * t.width, scores + h * t.count + j, t.count);
    }
  }
}

// Scores become exponentials relative to the largest; returns 1 / their sum.
float Exponentials(float* scores, size_t n, float scale) {
  const Row row(n);
  const Vec factor = hn::Set(row.d, scale);
  Vec most = hn::Set(row.d, scores[0]);
  size_t at = 0;
  for (; at + row.lanes <= n; at += row.lanes) most = hn::Max(most, hn::LoadU(row.d, scores + at));
  float peak = hn::GetLane(hn::MaxOfLanes(row.d, most));
  for (; at < n; ++at) peak = std::max(peak, scores[at]);
  const Vec top = hn::Set(row.d, peak);
  Vec total = hn::Zero(row.d);
  for (size_t j = 0; j < n; j += row.lanes) {
    const Vec z = hn::Mul(factor, hn::Sub(row.load(scores, j), top));
    const Vec e = row.inside(hn::Exp(row.d, z), j);
    row.store(e, scores, j);
    total = hn::Add(total, e);
  }
  return 1 / sum_lanes(total);
}

// kVecs vectors of the weighted sum of a head's values, from its column `i`.
template <int kVecs>
HWY_INLINE void WeightedValues(const PickedRow& t, const Row& row, size_t column, size_t i,
                               const float* weights, float scale) {
  Vec sum[kVecs];
  for (auto& s : sum) s = hn::Zero(row.d);
  for (size_t j = 0; j < t.count; ++j) {
    if (column == 0 && i == 0) FetchRow(t, t.v, t.v_stride, j);
    const float* value = t.v + t.picks[j] * t.v_stride + column;
    const Vec weight = hn::Set(row.d, weights[j]);
    for (int k = 0; k < kVecs; ++k) {
      const Vec v = row.load(value, i + static_cast<size_t>(k) * row.lanes);
      sum[k] = hn::MulAdd(weight, v, sum[k]);
    }
  }
  const Vec factor = hn::Set(row.d, scale);
  for (int k = 0; k < kVecs; ++k) {
    row.store(hn::Mul(factor, sum[k]), t.out + column, i + static_cast<size_t>(k) * row.lanes);
  }
}

void PickedAttention(const PickedRow& t) {
  thread_local std::vector<float> scores;
  scores.resize(std::max(scores.size(), t.heads * t.count));
  const Row row(t.width);
  PickedScores(t, scores.data());
  const float scale = 1.0F / std::sqrt(static_cast<float>(t.width));
  for (size_t head = 0; head < t.heads; ++head) {
    float* weights = scores.data() + head * t.count;
    const float inverse = Exponentials(weights, t.count, scale);
    const size_t column = head * t.width;
    size_t i = 0;
    for (; i + 4 * row.lanes <= t.width; i += 4 * row.lanes) {
      WeightedValues<4>(t, row, column, i, weights, inverse);
    }
    for (; i < t.width; i += row.lanes) {
      WeightedValues<1>(t, row, column, i, weights, inverse);
    }
  }
}

// The best so far, best first. Tokens come in rising order, so an equal one never displaces.
class Tops {
 public:
  Tops(TopLogit* out, size_t keep) : out_(out), keep_(keep) {}
  float least() const { return least_; }

  void offer(float logit, uint32_t token) {
    if (!(logit > least_)) return;
    size_t at = found_ < keep_ ? found_++ : keep_ - 1;
    for (; at > 0 && out_[at - 1].logit < logit; --at) out_[at] = out_[at - 1];
    out_[at] = {logit, token};
    if (found_ == keep_) least_ = out_[keep_ - 1].logit;
  }
  void finish() const {
    std::fill(out_ + found_, out_ + keep_, TopLogit{-std::numeric_limits<float>::infinity(), 0});
  }

 private:
  TopLogit* out_;
  size_t keep_;
  size_t found_ = 0;
  float least_ = -std::numeric_limits<float>::infinity();  // that the next one must exceed
};

// Nearly all logits are below the best few: one comparison dismisses four vectors at a time.
void FindTops(const float* logits, size_t n, Tops& tops) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const float* at = logits + i;
    const Vec ab = hn::Max(hn::LoadU(d, at), hn::LoadU(d, at + lanes));
    const Vec cd = hn::Max(hn::LoadU(d, at + 2 * lanes), hn::LoadU(d, at + 3 * lanes));
    if (hn::AllFalse(d, hn::Gt(hn::Max(ab, cd), hn::Set(d, tops.least())))) continue;
    for (size_t j = i; j < i + 4 * lanes; ++j) tops.offer(logits[j], static_cast<uint32_t>(j));
  }
  for (; i < n; ++i) tops.offer(logits[i], static_cast<uint32_t>(i));
}

double TopRow(const float* logits, size_t n, size_t keep, TopLogit* out) {
  Tops tops(out, keep);
  FindTops(logits, n, tops);
  tops.finish();
  const Row row(n);
  const float peak = out[0].logit;
  const Vec top = hn::Set(row.d, peak);
  Vec sum[2] = {hn::Zero(row.d), hn::Zero(row.d)};
  Vec plain = hn::Zero(row.d);  // Exp maps NaN to 0, so NaN is detected here
  size_t i = 0;
  for (; i + 2 * row.lanes <= n; i += 2 * row.lanes) {
    for (size_t k = 0; k < 2; ++k) {
      const Vec z = hn::LoadU(row.d, logits + i + k * row.lanes);
      sum[k] = hn::Add(sum[k], hn::Exp(row.d, hn::Sub(z, top)));
      plain = hn::Add(plain, z);
    }
  }
  for (; i < n; i += row.lanes) {
    const Vec z = row.load(logits, i);
    sum[0] = hn::Add(sum[0], row.inside(hn::Exp(row.d, hn::Sub(z, top)), i));
    plain = hn::Add(plain, z);
  }
  if (!std::isfinite(sum_lanes(plain))) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(peak) +
         std::log(static_cast<double>(sum_lanes(hn::Add(sum[0], sum[1]))));
}

}  // namespace reigen::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reigen::cpu {

HWY_EXPORT(PickedAttention);
HWY_EXPORT(TopRow);

void picked_attention_row(const PickedRow& row) { HWY_DYNAMIC_DISPATCH(PickedAttention)(row); }
double top_row(const float* logits, size_t n, size_t keep, TopLogit* out) {
  return HWY_DYNAMIC_DISPATCH(TopRow)(logits, n, keep, out);
}

}  // namespace reigen::cpu
#endif
