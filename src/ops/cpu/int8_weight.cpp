#include "ops/cpu/int8_weight.h"

#include <algorithm>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

// Rows of x at once; a multiple of kRowStep.
constexpr int64_t kMostRowsAtOnce = 128;
// Rows are filled up to multiples of it: code is compiled for each number of rows.
constexpr int64_t kRowStep = 4;
constexpr int64_t kInt8Grain = 8;      // rows of x
constexpr int64_t kOutputGrain = 128;  // rows of the weight

int64_t filled_up(int64_t rows) { return (rows + kRowStep - 1) / kRowStep * kRowStep; }

// Memory of one product that the next one uses again.
struct Int8Scratch {
  std::vector<uint8_t> x;
  std::vector<RowScale> scales;
  std::vector<int32_t> sums;
};

Int8Scratch& int8_scratch() {
  thread_local Int8Scratch scratch;
  return scratch;
}

template <class T>
T* at_least(std::vector<T>& memory, int64_t count) {
  if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

}  // namespace

Int8Weight::Int8Weight(const Int8Matrix& weight, Int8By by) : weight_(weight) {
  for (int64_t r = 0; r < weight.rows; ++r) {
    int32_t sum = 0;
    for (int64_t c = 0; c < weight.cols; ++c) sum += weight.row(r)[c];
    row_sums_.push_back(sum);
  }
  for (const Int8By way : {Int8By::kLibrary, Int8By::kI8mm, Int8By::kDot, Int8By::kAnyProcessor}) {
    by_ = way;
    if (way >= by && pack_by(way)) break;
  }
}

bool Int8Weight::pack_by(Int8By by) {
  switch (by) {
    case Int8By::kLibrary:
      return pack_by_library();
    case Int8By::kI8mm:
      return pack_by_kernels(Int8Unit::kI8mm);
    case Int8By::kDot:
      return pack_by_kernels(Int8Unit::kDot);
    case Int8By::kAnyProcessor:
      break;
  }
  return true;
}

bool Int8Weight::pack_by_library() {
  for (int64_t first = 0; first < weight_.rows; first += kBlock) {
    const int64_t count = std::min(kBlock, weight_.rows - first);
    auto block = LibraryWeight::pack(ProductType::kInt8, weight_.row(first), count, weight_.cols);
    if (block == nullptr) return false;  // for the first, and so for all
    blocks_.push_back(std::move(block));
  }
  return true;
}

bool Int8Weight::pack_by_kernels(Int8Unit unit) {
  kernels_ = int8_kernels(unit);
  if (kernels_ == nullptr) return false;
  panels_ = pack_panels(weight_, *kernels_);
  row_sums_.resize((row_sums_.size() + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs);
  return true;
}

void Int8Weight::sums_of(const Device& device, const uint8_t* x, int64_t rows, int64_t first,
                         int64_t count, int32_t* sums) const {
  if (by_ == Int8By::kLibrary) {
    return blocks_[static_cast<size_t>(first / kBlock)]->multiply(x, filled_up(rows), sums);
  }
  if (kernels_ != nullptr) {
    const int64_t panels = (count + kPanelOutputs - 1) / kPanelOutputs;
    const int64_t grain = kOutputGrain / kPanelOutputs;
    return parallel_for(device, panels, grain, [&](int64_t first_panel, int64_t last_panel, int) {
      const int64_t begin = first_panel * kPanelOutputs;
      kernels_->multiply({.x = x,
                          .rows = rows,
                          .weight = &panels_,
                          .weight_sums = row_sums_.data(),
                          .first = first + begin,
                          .outputs = std::min(last_panel * kPanelOutputs, count) - begin,
                          .sums = sums + begin,
                          .sums_stride = count});
    });
  }
  parallel_for(device, count, kOutputGrain, [&](int64_t begin, int64_t end, int) {
    int8_dots({.x = x,
               .rows = static_cast<size_t>(rows),
               .weight = weight_.row(first + begin),
               .outputs = static_cast<size_t>(end - begin),
               .inner = static_cast<size_t>(weight_.cols),
               .sums = sums + begin,
               .sums_stride = static_cast<size_t>(count)});
  });
}

void Int8Weight::multiply(const Device& device, Tensor x, Tensor y) const {
  Int8Scratch& scratch = int8_scratch();
  const int64_t stride = kernels_ != nullptr ? panels_.inner : x.cols;
  uint8_t* rounded = at_least(scratch.x, filled_up(x.rows) * stride);
  RowScale* scales = at_least(scratch.scales, x.rows);
  parallel_for(device, x.rows, kInt8Grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      scales[r] = quantize_row(x.row(r), static_cast<size_t>(x.cols), rounded + r * stride);
    }
  });
  const int64_t rows_at_once = std::min(kMostRowsAtOnce, filled_up(x.rows));
  int32_t* sums = at_least(scratch.sums, rows_at_once * std::min(kBlock, weight_.rows));
  for (int64_t first = 0; first < weight_.rows; first += kBlock) {
    const int64_t count = std::min(kBlock, weight_.rows - first);
    for (int64_t row = 0; row < x.rows; row += kMostRowsAtOnce) {
      const int64_t rows = std::min(kMostRowsAtOnce, x.rows - row);
      sums_of(device, rounded + row * stride, rows, first, count, sums);
      parallel_for(device, rows, kInt8Grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          scale_sums(sums + r * count, scales[row + r], row_sums_.data() + first,
                     weight_.scales + first, y.row(row + r) + first, static_cast<size_t>(count));
        }
      });
    }
  }
}

std::unique_ptr<PackedWeight> CpuBackend::pack_int8(const Device&, const Int8Matrix& weight) {
  return std::make_unique<Int8Weight>(weight);
}

}  // namespace reigen::cpu
