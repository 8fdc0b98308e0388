#include "dist/compress/power_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "tensor/philox.h"

namespace reigen {
namespace {

// A matrix is compressed when its factors are at most this part of it.
constexpr size_t kLeastGain = 2;
constexpr size_t kChunks = 8;  // what is complete leaves while the rest is computed
constexpr int64_t kRowsAtOnce = 16;

bool shrinks(const ParameterSlice& slice, size_t rank) {
  const size_t factors = rank * static_cast<size_t>(slice.rows + slice.cols);
  return slice.rows > 1 && slice.cols > 1 && kLeastGain * factors <= slice.size();
}

// A pure function of the seed, so that all ranks begin with the same.
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

// In lanes, so that a vector unit can add in the order that is written here.
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

// Columns of a [rows, rank] matrix made orthonormal, one after another. A column that depends on
// those before it becomes zero: it carries nothing.
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

PowerSgd::Parts PowerSgd::cut(const ParameterLayout& layout, size_t rank) {
  const size_t enough = layout.elements() / kChunks;
  Parts parts;
  size_t elements = 0;
  Chunk chunk;
  auto close = [&] {
    if (chunk.matrices.empty()) return;
    chunk.left.end = parts.left;
    chunk.right.end = parts.right;
    parts.chunks.push_back(std::move(chunk));
    chunk = {};
    chunk.left.begin = parts.left;
    chunk.right.begin = parts.right;
    elements = 0;
  };
  auto add_whole = [&](size_t begin, size_t end) {
    if (begin == end) return;
    parts.wholes.push_back({begin, end - begin, parts.whole});
    parts.whole += end - begin;
  };
  const std::vector<ParameterSlice>& slices = layout.slices();
  for (size_t s = 0; s < slices.size(); ++s) {
    const ParameterSlice& slice = slices[s];
    // Gaps between slices hold nothing, but that has to be the same everywhere, too.
    const size_t next = s + 1 < slices.size() ? slices[s + 1].offset : layout.elements();
    if (!shrinks(slice, rank)) {
      add_whole(slice.offset, next);
      continue;
    }
    add_whole(slice.offset + slice.size(), next);
    const Matrix matrix = {static_cast<size_t>(slice.rows), static_cast<size_t>(slice.cols),
                           slice.offset, parts.left, parts.right};
    chunk.matrices.push_back(matrix);
    chunk.end = slice.offset + slice.size();
    parts.left += matrix.rows * rank;
    parts.right += matrix.cols * rank;
    elements += slice.size();
    if (elements >= enough) close();
  }
  close();
  return parts;
}

PowerSgd::PowerSgd(Group& group, const Device& device, const ParameterLayout& layout, int64_t rank,
                   uint64_t seed)
    : group_(group),
      device_(device),
      rank_(static_cast<size_t>(rank)),
      seed_(seed),
      error_(layout.elements()) {
  Parts parts = cut(layout, rank_);
  chunks_ = std::move(parts.chunks);
  wholes_ = std::move(parts.wholes);
  left_.resize(parts.left);
  right_.resize(parts.right);
  whole_.resize(parts.whole);
  fill_normal(right_, seed_);
}

StepTraffic PowerSgd::payload(const ParameterLayout& layout, int64_t rank) {
  const Parts parts = cut(layout, static_cast<size_t>(rank));
  const size_t last = layout.last_final_from();
  size_t early = 0;  // left factors that leave while backward runs
  size_t early_messages = 0;
  for (const Chunk& chunk : parts.chunks) {
    if (chunk.end > last) continue;
    early += chunk.left.size();
    ++early_messages;
  }
  const size_t messages = 2 * parts.chunks.size() + (parts.whole > 0 ? 1 : 0);
  const double bytes =
      2.0 * static_cast<double>(parts.left + parts.right) + 4.0 * static_cast<double>(parts.whole);
  return {bytes, static_cast<double>(messages), bytes - 2.0 * static_cast<double>(early),
          static_cast<double>(messages - early_messages)};
}

std::vector<KeptTensor> PowerSgd::kept() {
  return {{"error", error_, true}, {"right", right_, false}};
}

void PowerSgd::begin(std::span<float> gradient) {
  gradient_ = gradient;
  next_ = 0;
  compute_ = 0;
  sent_.clear();
}

// left = (gradient + error) right^T, over all ranks.
void PowerSgd::project(Chunk& chunk) {
  for (const Matrix& m : chunk.matrices) {
    parallel_for(device_, static_cast<int64_t>(m.rows), kRowsAtOnce,
                 [&](int64_t begin, int64_t end, int) {
                   for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                     float* row = error_.data() + m.offset + i * m.cols;
                     const float* fresh = gradient_.data() + m.offset + i * m.cols;
                     for (size_t j = 0; j < m.cols; ++j) row[j] += fresh[j];
                     for (size_t k = 0; k < rank_; ++k) {
                       left_[m.left + i * rank_ + k] =
                           dot<float>(row, right_.data() + m.right + k * m.cols, m.cols);
                     }
                   }
                 });
  }
  chunk.sent =
      group_.all_reduce(std::span(left_).subspan(chunk.left.begin, chunk.left.size()), Wire::kBf16);
}

// right = left^T (gradient + error), over all ranks, with the columns of left orthonormal.
void PowerSgd::project_back(Chunk& chunk) {
  constexpr int64_t kColumnsAtOnce = 32;
  for (const Matrix& m : chunk.matrices) {
    const float* left = left_.data() + m.left;
    orthonormalise(left_.data() + m.left, m.rows, rank_);
    parallel_for(device_, static_cast<int64_t>(m.cols), kColumnsAtOnce,
                 [&](int64_t begin, int64_t end, int) {
                   const auto first = static_cast<size_t>(begin);
                   const auto count = static_cast<size_t>(end - begin);
                   float* out = right_.data() + m.right + first;
                   for (size_t k = 0; k < rank_; ++k) std::fill_n(out + k * m.cols, count, 0.0F);
                   for (size_t i = 0; i < m.rows; ++i) {
                     const float* row = error_.data() + m.offset + i * m.cols + first;
                     for (size_t k = 0; k < rank_; ++k) {
                       add_scaled(left[i * rank_ + k], row, count, out + k * m.cols);
                     }
                   }
                 });
  }
  chunk.sent = group_.all_reduce(std::span(right_).subspan(chunk.right.begin, chunk.right.size()),
                                 Wire::kBf16);
}

// gradient = left right; each rank keeps its part of what that is not.
void PowerSgd::rebuild(Chunk& chunk) {
  const float part = 1.0F / static_cast<float>(group_.size());
  for (const Matrix& m : chunk.matrices) {
    parallel_for(device_, static_cast<int64_t>(m.rows), kRowsAtOnce,
                 [&](int64_t begin, int64_t end, int) {
                   for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                     float* out = gradient_.data() + m.offset + i * m.cols;
                     std::fill_n(out, m.cols, 0.0F);
                     for (size_t k = 0; k < rank_; ++k) {
                       add_scaled(left_[m.left + i * rank_ + k],
                                  right_.data() + m.right + k * m.cols, m.cols, out);
                     }
                     add_scaled(-part, out, m.cols, error_.data() + m.offset + i * m.cols);
                   }
                 });
  }
}

// A direction in which there was nothing (a gradient of lower rank, or none at all) would stay
// empty for ever: the next step looks in a new one.
void PowerSgd::reseed_empty_directions(const Chunk& chunk) {
  for (const Matrix& m : chunk.matrices) {
    for (size_t k = 0; k < rank_; ++k) {
      const std::span<float> row(right_.data() + m.right + k * m.cols, m.cols);
      const bool empty = std::all_of(row.begin(), row.end(), [](float x) { return x == 0; });
      if (empty) fill_normal(row, seed_ + m.right + k + 1);
    }
  }
}

// With what a warm-up may have kept back of it.
void PowerSgd::send_whole() {
  for (const Whole& w : wholes_) {
    float* unsent = error_.data() + w.offset;
    std::transform(unsent, unsent + w.size, gradient_.data() + w.offset, whole_.data() + w.at,
                   std::plus<>());
    std::fill_n(unsent, w.size, 0.0F);
  }
  if (!whole_.empty()) whole_sent_ = group_.all_reduce(whole_);
}

void PowerSgd::ready(size_t elements) {
  for (; next_ < chunks_.size() && chunks_[next_].end <= elements; ++next_) {
    project(chunks_[next_]);
  }
}

void PowerSgd::note(const Pending& done) {
  const OpTimes times = done.times();
  sent_.push_back({.ready = times.started, .begin = times.begin, .end = times.end});
}

// A gradient that is not finite is skipped by all, and must not stay in the memory.
void PowerSgd::forget() {
  std::fill(error_.begin(), error_.end(), 0.0F);
  fill_normal(right_, seed_);
}

CommStatus PowerSgd::finish() {
  computed_ = CommClock::now();
  Stopwatch watch;
  ready(gradient_.size());
  send_whole();
  compute_ += watch.lap();
  CommStatus status;
  // All are waited for even after a failure: they use the factors until they have ended.
  auto wait = [&](const Pending& sent) {
    CommStatus ended = sent.wait();
    if (status.ok()) status = std::move(ended);
    note(sent);
    watch.lap();
  };
  for (Chunk& chunk : chunks_) {
    wait(chunk.sent);
    if (!status.ok()) continue;
    project_back(chunk);
    compute_ += watch.lap();
  }
  if (!whole_.empty()) wait(whole_sent_);
  if (!status.ok()) return status;
  for (const Whole& w : wholes_) {
    std::copy_n(whole_.data() + w.at, w.size, gradient_.data() + w.offset);
  }
  for (Chunk& chunk : chunks_) {
    wait(chunk.sent);
    if (!status.ok()) continue;
    rebuild(chunk);
    reseed_empty_directions(chunk);
    compute_ += watch.lap();
  }
  const auto finite = [](float x) { return std::isfinite(x); };
  if (status.ok() && !(std::all_of(right_.begin(), right_.end(), finite) &&
                       std::all_of(left_.begin(), left_.end(), finite))) {
    forget();
  }
  return status;
}

ReduceTimes PowerSgd::times() const { return reduce_times(sent_, computed_); }

}  // namespace reigen
