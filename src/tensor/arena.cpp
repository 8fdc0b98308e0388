#include "tensor/arena.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr size_t kLeastBlock = size_t{1} << 20;
constexpr size_t kLeastGpuBlock = size_t{32} << 20;

}  // namespace

size_t Arena::in_use() const {
  size_t sum = used_;
  for (size_t b = 0; b < current_; ++b) sum += blocks_[b].size();
  return sum;
}

size_t Arena::capacity() const {
  size_t sum = 0;
  for (const auto& block : blocks_) sum += block.size();
  return sum;
}

void Arena::add_block(size_t size) {
  blocks_.emplace_back(kind_, size, "activations");
  ++allocations_;
}

void* Arena::bytes(size_t size) {
  size =
      (size + DeviceBuffer::kAlignment - 1) / DeviceBuffer::kAlignment * DeviceBuffer::kAlignment;
  while (current_ < blocks_.size() && used_ + size > blocks_[current_].size()) {
    ++current_;
    used_ = 0;
  }
  if (current_ == blocks_.size()) {
    // Untouched host memory costs nothing; GPU memory is taken as soon as it is allocated.
    add_block(kind_ == DeviceKind::kGpu ? std::max(size, kLeastGpuBlock)
                                        : std::max({size, kLeastBlock, capacity() / 2}));
  }
  void* memory = blocks_[current_].data() + used_;
  used_ += size;
  peak_ = std::max(peak_, in_use());
  return memory;
}

Tensor Arena::matrix(int64_t rows, int64_t cols, DType dtype) {
  void* data = bytes(static_cast<size_t>(rows * cols) * size_of(dtype));
  return {data, dtype, rows, cols, cols};
}

void Arena::release(Mark mark) {
  current_ = mark.block;
  used_ = mark.used;
}

void Arena::reset() {
  if (blocks_.size() > 1) {
    const size_t size = capacity();
    blocks_.clear();
    add_block(size);
  }
  current_ = 0;
  used_ = 0;
}

}  // namespace reigen
