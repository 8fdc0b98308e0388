#include "dist/compress/power_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "tensor/philox.h"

namespace reigen {
namespace {

constexpr size_t kLeastGain = 2;  // a matrix is compressed if its factors are this much smaller
constexpr size_t kBuckets = 8;    // complete buckets leave while backward computes the rest
constexpr int64_t kRowsAtOnce = 16;

bool shrinks(const ParameterSlice& slice, size_t rank) {
  const size_t factors = rank * static_cast<size_t>(slice.rows + slice.cols);
  return slice.rows > 1 && slice.cols > 1 && kLeastGain * factors <= slice.size();
}

// A pure function of the seed, so that all ranks start with the same values.
void fill_normal(std::span<float> values, uint64_t seed) {
  constexpr double kTwoPi = 6.283185307179586;
  for (size_t i = 0; i < values.size(); i += 2) {
    const auto bits = philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0},
                             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const double radius = std::sqrt(-2 * std::log((bits[0] + 1.0) * 0x1p-32));
    values[i] = static_cast<float>(radius * std::cos(kTwoPi * bits[1] * 0x1p-32));
    if (i + 1 < values.size()) {
      values[i + 1] = static_cast<float>(radius * std::sin(kTwoPi * bits[1] * 0x1p-32));
    }
  }
}

// Partial sums in lanes, so that the vectorised order of additions is the one written here.
template <class T>
T dot(const T* a, const T* b, size_t count) {
  constexpr size_t kLanes = 16;
  std::array<T, kLanes> sums = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  }
  T sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (T lane : sums) sum += lane;
  return sum;
}

// Gram-Schmidt on the columns of a [rows, rank] matrix. A column that depends on those before it
// becomes zero.
void orthonormalise(float* matrix, size_t rows, size_t rank) {
  constexpr double kDependent = 1e-6;
  std::vector<double> columns(rows * rank);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t c = 0; c < rank; ++c) columns[c * rows + i] = matrix[i * rank + c];
  }
  for (size_t c = 0; c < rank; ++c) {
    double* column = columns.data() + c * rows;
    const double before = dot<double>(column, column, rows);
    for (size_t d = 0; d < c; ++d) {
      const double* other = columns.data() + d * rows;
      const double shared = dot<double>(column, other, rows);
      for (size_t i = 0; i < rows; ++i) column[i] -= shared * other[i];
    }
    const double square = dot<double>(column, column, rows);
    const bool dependent = square <= kDependent * kDependent * before;
    const double scale = dependent ? 0 : 1 / std::sqrt(square);
    for (size_t i = 0; i < rows; ++i) column[i] *= scale;
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t c = 0; c < rank; ++c) {
      matrix[i * rank + c] = static_cast<float>(columns[c * rows + i]);
    }
  }
}

void add_scaled(float scale, const float* values, size_t count, float* sum) {
  for (size_t i = 0; i < count; ++i) sum[i] += scale * values[i];
}

}  // namespace

PowerSgd::Split PowerSgd::split(const ParameterLayout& layout, size_t rank) {
  const size_t enough = layout.elements() / kBuckets;
  Split result;
  size_t elements = 0;
  Bucket bucket;
  auto close = [&] {
    if (bucket.matrices.empty()) return;
    bucket.left.end = result.left;
    bucket.right.end = result.right;
    result.buckets.push_back(std::move(bucket));
    bucket = {};
    bucket.left.begin = result.left;
    bucket.right.begin = result.right;
    elements = 0;
  };
  auto add_whole = [&](size_t begin, size_t end) {
    if (begin == end) return;
    result.wholes.push_back({begin, end - begin, result.whole});
    result.whole += end - begin;
  };
  const std::vector<ParameterSlice>& slices = layout.slices();
  for (size_t s = 0; s < slices.size(); ++s) {
    const ParameterSlice& slice = slices[s];
    // Gaps between slices are not used, but must be equal on all ranks, too.
    const size_t next = s + 1 < slices.size() ? slices[s + 1].offset : layout.elements();
    if (!shrinks(slice, rank)) {
      add_whole(slice.offset, next);
      continue;
    }
    add_whole(slice.offset + slice.size(), next);
    const Matrix matrix = {static_cast<size_t>(slice.rows), static_cast<size_t>(slice.cols),
                           slice.offset, result.left, result.right};
    bucket.matrices.push_back(matrix);
    bucket.end = slice.offset + slice.size();
    result.left += matrix.rows * rank;
    result.right += matrix.cols * rank;
    elements += slice.size();
    if (elements >= enough) close();
  }
  close();
  return result;
}

PowerSgd::PowerSgd(Group& group, const Device& device, const ParameterLayout& layout,
                   const CompressorPlan& plan)
    : group_(&group),
      device_(device),
      rank_(static_cast<size_t>(plan.setting.rank)),
      seed_(plan.seed),
      residual_(std::make_shared<Residual>(layout.elements(), plan.repeatable)),
      repeatable_(plan.repeatable) {
  Split result = split(layout, rank_);
  buckets_ = std::move(result.buckets);
  wholes_ = std::move(result.wholes);
  left_.resize(result.left);
  right_.resize(result.right);
  whole_.resize(result.whole);
  fill_normal(right_, seed_);
  if (repeatable_) right_before_ = right_;
}

StepTraffic PowerSgd::payload(const ParameterLayout& layout, int64_t rank) {
  const Split result = split(layout, static_cast<size_t>(rank));
  const size_t last = layout.last_final_from();
  size_t early = 0;  // elements of left factors that leave during backward
  size_t early_messages = 0;
  for (const Bucket& bucket : result.buckets) {
    if (bucket.end > last) continue;
    early += bucket.left.size();
    ++early_messages;
  }
  const size_t messages = 2 * result.buckets.size() + (result.whole > 0 ? 1 : 0);
  const double bytes = 2.0 * static_cast<double>(result.left + result.right) +
                       4.0 * static_cast<double>(result.whole);
  return {.bytes = bytes,
          .messages = static_cast<double>(messages),
          .late_bytes = bytes - 2.0 * static_cast<double>(early),
          .late_messages = static_cast<double>(messages - early_messages)};
}

std::vector<StateTensor> PowerSgd::state() {
  return {{.name = "error", .values = residual_->last(), .per_rank = true},
          {.name = "right", .values = right_, .per_rank = false}};
}

void PowerSgd::begin(std::span<float> gradient) {
  gradient_ = gradient;
  next_ = 0;
  compute_ = 0;
  sent_.clear();
  if (repeatable_) right_before_ = right_;
}

// left = (gradient + residual) right^T, summed over all ranks.
void PowerSgd::project(Bucket& bucket) {
  for (const Matrix& m : bucket.matrices) {
    parallel_for(device_, static_cast<int64_t>(m.rows), kRowsAtOnce,
                 [&](int64_t begin, int64_t end, int) {
                   for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                     const size_t at = m.offset + i * m.cols;
                     float* row = residual_->next().data() + at;
                     const float* last = residual_->last().data() + at;
                     const float* fresh = gradient_.data() + at;
                     if (row != last) std::copy_n(last, m.cols, row);
                     for (size_t j = 0; j < m.cols; ++j) row[j] += fresh[j];
                     for (size_t k = 0; k < rank_; ++k) {
                       left_[m.left + i * rank_ + k] =
                           dot<float>(row, right_.data() + m.right + k * m.cols, m.cols);
                     }
                   }
                 });
  }
  bucket.sent = group_->all_reduce(std::span(left_).subspan(bucket.left.begin, bucket.left.size()),
                                   Wire::kBf16);
}

// right = left^T (gradient + residual), summed over all ranks, after orthonormalising left.
void PowerSgd::project_back(Bucket& bucket) {
  constexpr int64_t kColumnsAtOnce = 32;
  for (const Matrix& m : bucket.matrices) {
    const float* left = left_.data() + m.left;
    orthonormalise(left_.data() + m.left, m.rows, rank_);
    parallel_for(device_, static_cast<int64_t>(m.cols), kColumnsAtOnce,
                 [&](int64_t begin, int64_t end, int) {
                   const auto first = static_cast<size_t>(begin);
                   const auto count = static_cast<size_t>(end - begin);
                   float* out = right_.data() + m.right + first;
                   for (size_t k = 0; k < rank_; ++k) std::fill_n(out + k * m.cols, count, 0.0F);
                   for (size_t i = 0; i < m.rows; ++i) {
                     const float* row = residual_->next().data() + m.offset + i * m.cols + first;
                     for (size_t k = 0; k < rank_; ++k) {
                       add_scaled(left[i * rank_ + k], row, count, out + k * m.cols);
                     }
                   }
                 });
  }
  bucket.sent = group_->all_reduce(
      std::span(right_).subspan(bucket.right.begin, bucket.right.size()), Wire::kBf16);
}

// gradient = left right; each rank subtracts its share of it from the residual.
void PowerSgd::rebuild(Bucket& bucket) {
  const float share = 1.0F / static_cast<float>(group_->size());
  for (const Matrix& m : bucket.matrices) {
    parallel_for(
        device_, static_cast<int64_t>(m.rows), kRowsAtOnce, [&](int64_t begin, int64_t end, int) {
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            float* out = gradient_.data() + m.offset + i * m.cols;
            std::fill_n(out, m.cols, 0.0F);
            for (size_t k = 0; k < rank_; ++k) {
              add_scaled(left_[m.left + i * rank_ + k], right_.data() + m.right + k * m.cols,
                         m.cols, out);
            }
            add_scaled(-share, out, m.cols, residual_->next().data() + m.offset + i * m.cols);
          }
        });
  }
}

// A direction of zero length (the gradient had a lower rank, or was zero) would stay zero for ever:
// it gets new random values.
void PowerSgd::reseed_empty_directions(const Bucket& bucket) {
  for (const Matrix& m : bucket.matrices) {
    for (size_t k = 0; k < rank_; ++k) {
      const std::span<float> row(right_.data() + m.right + k * m.cols, m.cols);
      const bool empty = std::all_of(row.begin(), row.end(), [](float x) { return x == 0; });
      if (empty) fill_normal(row, seed_ + m.right + k + 1);
    }
  }
}

// Sends the uncompressed slices, with the residual that a warm-up may have left.
void PowerSgd::send_whole() {
  for (const Whole& w : wholes_) {
    const float* last = residual_->last().data() + w.offset;
    std::transform(last, last + w.size, gradient_.data() + w.offset, whole_.data() + w.at,
                   std::plus<>());
    std::fill_n(residual_->next().data() + w.offset, w.size, 0.0F);
  }
  if (!whole_.empty()) whole_sent_ = group_->all_reduce(whole_);
}

void PowerSgd::ready(size_t elements) {
  for (; next_ < buckets_.size() && buckets_[next_].end <= elements; ++next_) {
    project(buckets_[next_]);
  }
}

// All ranks skip a step with a non-finite gradient; it must not stay in the state.
void PowerSgd::reset() {
  std::ranges::fill(residual_->next(), 0.0F);
  fill_normal(right_, seed_);
}

CommStatus PowerSgd::finish() {
  computed_ = CommClock::now();
  Stopwatch watch;
  ready(gradient_.size());
  send_whole();
  compute_ += watch.lap();
  CommStatus status;
  // Wait for all, even after a failure: they use the factors until they have ended.
  auto wait = [&](const Pending& sent) {
    CommStatus ended = sent.wait();
    if (status.ok()) status = std::move(ended);
    sent_.push_back(sent.times());
    watch.lap();
  };
  for (Bucket& bucket : buckets_) {
    wait(bucket.sent);
    if (!status.ok()) continue;
    project_back(bucket);
    compute_ += watch.lap();
  }
  if (!whole_.empty()) wait(whole_sent_);
  if (!status.ok()) return status;
  for (const Whole& w : wholes_) {
    std::copy_n(whole_.data() + w.at, w.size, gradient_.data() + w.offset);
  }
  for (Bucket& bucket : buckets_) {
    wait(bucket.sent);
    if (!status.ok()) continue;
    rebuild(bucket);
    reseed_empty_directions(bucket);
    compute_ += watch.lap();
  }
  const auto finite = [](float x) { return std::isfinite(x); };
  if (status.ok() && !(std::all_of(right_.begin(), right_.end(), finite) &&
                       std::all_of(left_.begin(), left_.end(), finite))) {
    reset();
  }
  return status;
}

ReduceTimes PowerSgd::times() const { return reduce_times(sent_, computed_); }

}  // namespace reigen
