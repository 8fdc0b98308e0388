// Attention for one head of one sentence, all in scratch memory that fits the cache.
//
// A sentence is about 28 x 28, where a library call costs more than the product, so these
// products are written here: rows of the left side are broadcast against vectors of the right side.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants its own order of includes from here on.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "ops/cpu/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace reigen::cpu::HWY_NAMESPACE {

size_t Padded(size_t n) {
  const size_t lanes = hn::Lanes(F32());
  return (n + lanes - 1) / lanes * lanes;
}

// A matrix in scratch memory; rows are whole vectors, and elements past the columns are 0.
struct Matrix {
  float* data = nullptr;
  size_t rows = 0;
  size_t stride = 0;
  float* row(size_t r) const { return data + r * stride; }
};

class Scratch {
 public:
  Matrix matrix(size_t rows, size_t cols) {
    Matrix m{nullptr, rows, Padded(cols)};
    size_t need = rows * m.stride;
    if (used_ + need > memory_.size()) {
      // Earlier pointers must stay valid, so old memory is freed with the next task.
      old_.push_back(std::move(memory_));
      memory_ = std::vector<float>(std::max(need, 2 * (used_ + need)));
      used_ = 0;
    }
    m.data = memory_.data() + used_;
    used_ += need;
    return m;
  }
  void clear() {
    old_.clear();
    used_ = 0;
  }

 private:
  std::vector<float> memory_;
  std::vector<std::vector<float>> old_;
  size_t used_ = 0;
};

Matrix Pack(Scratch& scratch, const float* from, size_t stride, size_t rows, size_t cols) {
  Matrix m = scratch.matrix(rows, cols);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(from + r * stride, cols, m.row(r));
    std::fill(m.row(r) + cols, m.row(r) + m.stride, 0.0F);
  }
  return m;
}

Matrix PackTransposed(Scratch& scratch, const float* from, size_t stride, size_t rows,
                      size_t cols) {
  Matrix m = scratch.matrix(cols, rows);
  for (size_t c = 0; c < cols; ++c) {
    for (size_t r = 0; r < rows; ++r) m.row(c)[r] = from[r * stride + c];
    std::fill(m.row(c) + rows, m.row(c) + m.stride, 0.0F);
  }
  return m;
}

void Unpack(const Matrix& from, size_t rows, size_t cols, float scale, float* to, size_t stride) {
  const Row row(cols);
  const Vec s = hn::Set(F32(), scale);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < cols; i += row.lanes) {
      row.store(hn::Mul(s, row.load(from.row(r), i)), to + r * stride, i);
    }
  }
}

// C[kRows rows, kVecs vectors] = A B, from the given corner; A is read element by element, so that
// it may be transposed by its steps.
template <int kRows, int kVecs>
HWY_INLINE void Tile(const float* a, size_t row_step, size_t inner_step, size_t inner,
                     const Matrix& b, size_t column, float* c, size_t c_stride) {
  const F32 d;
  const size_t lanes = hn::Lanes(d);
  Vec sum[kRows][kVecs];
  for (auto& row : sum) {
    for (auto& v : row) v = hn::Zero(d);
  }
  for (size_t k = 0; k < inner; ++k) {
    Vec right[kVecs];
    for (int j = 0; j < kVecs; ++j) {
      right[j] = hn::LoadU(d, b.row(k) + column + static_cast<size_t>(j) * lanes);
    }
    for (int i = 0; i < kRows; ++i) {
      const Vec left = hn::Set(d, a[static_cast<size_t>(i) * row_step + k * inner_step]);
      for (int j = 0; j < kVecs; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVecs; ++j) {
      hn::StoreU(sum[i][j], d,
                 c + static_cast<size_t>(i) * c_stride + static_cast<size_t>(j) * lanes);
    }
  }
}

template <int kVecs>
void Columns(const float* a, size_t row_step, size_t inner_step, size_t inner, const Matrix& b,
             size_t column, const Matrix& c, size_t rows) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    Tile<4, kVecs>(a + r * row_step, row_step, inner_step, inner, b, column, c.row(r) + column,
                   c.stride);
  }
  for (; r < rows; ++r) {
    Tile<1, kVecs>(a + r * row_step, row_step, inner_step, inner, b, column, c.row(r) + column,
                   c.stride);
  }
}

// C = A B for rows x inner A with the given steps; B and C have padded rows of the same length.
void Multiply(const float* a, size_t row_step, size_t inner_step, size_t rows, size_t inner,
              const Matrix& b, const Matrix& c) {
  const size_t lanes = hn::Lanes(F32());
  size_t column = 0;
  for (; column + 4 * lanes <= c.stride; column += 4 * lanes) {
    Columns<4>(a, row_step, inner_step, inner, b, column, c, rows);
  }
  for (; column + 2 * lanes <= c.stride; column += 2 * lanes) {
    Columns<2>(a, row_step, inner_step, inner, b, column, c, rows);
  }
  for (; column < c.stride; column += lanes) {
    Columns<1>(a, row_step, inner_step, inner, b, column, c, rows);
  }
}

// Keys that query `i` may see.
size_t Visible(const HeadTask& t, size_t i) { return t.causal ? std::min(i + 1, t.keys) : t.keys; }

float Scale(const HeadTask& t) { return 1.0F / std::sqrt(static_cast<float>(t.width)); }

// Row i of scores becomes weights; returns the log of the sum of exponentials.
float Softmax(const HeadTask& t, size_t i, float* scores, size_t stride) {
  const size_t n = Visible(t, i);
  const Row row(n);
  const F32 d;
  const Vec scale = hn::Set(d, Scale(t));
  float peak = scores[0];
  for (size_t j = 1; j < n; ++j) peak = std::max(peak, scores[j]);
  const Vec top = hn::Set(d, peak * Scale(t));
  Vec total = hn::Zero(d);
  for (size_t j = 0; j < n; j += row.lanes) {
    const Vec z = hn::Sub(hn::Mul(scale, row.load(scores, j)), top);
    const Vec e = row.inside(hn::Exp(d, z), j);
    row.store(e, scores, j);
    total = hn::Add(total, e);
  }
  const float sum = sum_lanes(total);
  const Vec inverse = hn::Set(d, 1 / sum);
  for (size_t j = 0; j < n; j += row.lanes) {
    row.store(hn::Mul(inverse, row.load(scores, j)), scores, j);
  }
  std::fill(scores + n, scores + stride, 0.0F);
  return peak * Scale(t) + std::log(sum);
}

RowDropout WeightDropout(const HeadTask& t, size_t i) {
  return row_dropout(*t.dropout, t.first_row + static_cast<int64_t>(i), t.head << 16);
}

void MultiplyByFactors(const HeadTask& t, size_t i, float* values) {
  DropFactors factors(WeightDropout(t, i));
  if (!factors.active()) return;
  const size_t n = Visible(t, i);
  const Row row(n);
  for (size_t j = 0; j < n; j += row.lanes) {
    row.store(hn::Mul(row.load(values, j), factors.at(j)), values, j);
  }
}

Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  scratch.clear();
  return scratch;
}

void HeadForward(const HeadTask& t) {
  Scratch& scratch = ThreadScratch();
  const Matrix keys = PackTransposed(scratch, t.k, t.k_stride, t.keys, t.width);
  const Matrix values = Pack(scratch, t.v, t.v_stride, t.keys, t.width);
  const Matrix weights = scratch.matrix(t.queries, t.keys);
  const Matrix out = scratch.matrix(t.queries, t.width);
  Multiply(t.q, t.q_stride, 1, t.queries, t.width, keys, weights);
  for (size_t i = 0; i < t.queries; ++i) {
    t.log_sums[i * t.log_stride] = Softmax(t, i, weights.row(i), weights.stride);
    MultiplyByFactors(t, i, weights.row(i));
  }
  Multiply(weights.data, weights.stride, 1, t.queries, t.keys, values, out);
  Unpack(out, t.queries, t.width, 1, t.out, t.out_stride);
}

// One row of backward. In: scores, and the gradient of the dropped weights. Out: `dropped`, the
// weights that multiplied the values, and in place of `dweights` the gradient of the scaled scores.
void ScoresBackward(const HeadTask& t, size_t i, size_t stride, float* scores, float* dweights,
                    float* dropped) {
  const size_t n = Visible(t, i);
  const Row row(n);
  const F32 d;
  const Vec scale = hn::Set(d, Scale(t));
  const Vec log_sum = hn::Set(d, t.log_sums[i * t.log_stride]);
  DropFactors factors(WeightDropout(t, i));
  Vec dot = hn::Zero(d);
  for (size_t j = 0; j < n; j += row.lanes) {
    const Vec p = row.inside(hn::Exp(d, hn::Sub(hn::Mul(scale, row.load(scores, j)), log_sum)), j);
    const Vec factor = factors.active() ? factors.at(j) : hn::Set(d, 1.0F);
    const Vec dp = hn::Mul(row.load(dweights, j), factor);
    dot = hn::MulAdd(p, dp, dot);
    row.store(p, scores, j);
    row.store(dp, dweights, j);
    row.store(hn::Mul(p, factor), dropped, j);
  }
  const Vec mean = hn::Set(d, sum_lanes(dot));
  for (size_t j = 0; j < n; j += row.lanes) {
    const Vec ds = hn::Mul(row.load(scores, j), hn::Sub(row.load(dweights, j), mean));
    row.store(ds, dweights, j);
  }
  std::fill(dweights + n, dweights + stride, 0.0F);
  std::fill(dropped + n, dropped + stride, 0.0F);
}

void HeadBackward(const HeadTask& t, const HeadGrad& g) {
  Scratch& scratch = ThreadScratch();
  const Matrix keys_t = PackTransposed(scratch, t.k, t.k_stride, t.keys, t.width);
  const Matrix values_t = PackTransposed(scratch, t.v, t.v_stride, t.keys, t.width);
  const Matrix scores = scratch.matrix(t.queries, t.keys);
  const Matrix dscores = scratch.matrix(t.queries, t.keys);
  const Matrix dropped = scratch.matrix(t.queries, t.keys);
  Multiply(t.q, t.q_stride, 1, t.queries, t.width, keys_t, scores);
  Multiply(g.dout, g.dout_stride, 1, t.queries, t.width, values_t, dscores);
  for (size_t i = 0; i < t.queries; ++i) {
    ScoresBackward(t, i, scores.stride, scores.row(i), dscores.row(i), dropped.row(i));
  }
  const Matrix dout = Pack(scratch, g.dout, g.dout_stride, t.queries, t.width);
  const Matrix dkv = scratch.matrix(t.keys, t.width);
  Multiply(dropped.data, 1, dropped.stride, t.keys, t.queries, dout, dkv);
  Unpack(dkv, t.keys, t.width, 1, g.dv, g.dv_stride);
  const Matrix queries = Pack(scratch, t.q, t.q_stride, t.queries, t.width);
  Multiply(dscores.data, 1, dscores.stride, t.keys, t.queries, queries, dkv);
  Unpack(dkv, t.keys, t.width, Scale(t), g.dk, g.dk_stride);
  const Matrix keys = Pack(scratch, t.k, t.k_stride, t.keys, t.width);
  const Matrix dq = scratch.matrix(t.queries, t.width);
  Multiply(dscores.data, dscores.stride, 1, t.queries, t.keys, keys, dq);
  Unpack(dq, t.queries, t.width, Scale(t), g.dq, g.dq_stride);
}

}  // namespace reigen::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reigen::cpu {

HWY_EXPORT(HeadForward);
HWY_EXPORT(HeadBackward);

void attention_head_forward(const HeadTask& task) { HWY_DYNAMIC_DISPATCH(HeadForward)(task); }
void attention_head_backward(const HeadTask& task, const HeadGrad& grad) {
  HWY_DYNAMIC_DISPATCH(HeadBackward)(task, grad);
}

}  // namespace reigen::cpu
#endif
