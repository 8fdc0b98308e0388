#include "tensor/arena.h"

#include <algorithm>
#include <new>

namespace reigen {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLeastBlock = size_t{1} << 20;

}  // namespace

void Arena::Free::operator()(std::byte* p) const {
  ::operator delete(p, std::align_val_t(kAlignment));
}

Arena::Block Arena::make_block(size_t size) {
  auto* memory = static_cast<std::byte*>(::operator new(size, std::align_val_t(kAlignment)));
  return {std::unique_ptr<std::byte, Free>(memory), size};
}

size_t Arena::in_use() const {
  size_t sum = used_;
  for (size_t b = 0; b < current_; ++b) sum += blocks_[b].size;
  return sum;
}

size_t Arena::capacity() const {
  size_t sum = 0;
  for (const auto& block : blocks_) sum += block.size;
  return sum;
}

void* Arena::bytes(size_t size) {
  size = (size + kAlignment - 1) / kAlignment * kAlignment;
  while (current_ < blocks_.size() && used_ + size > blocks_[current_].size) {
    ++current_;
    used_ = 0;
  }
  if (current_ == blocks_.size()) {
    blocks_.push_back(make_block(std::max({size, kLeastBlock, capacity() / 2})));
    ++allocations_;
  }
  void* memory = blocks_[current_].data.get() + used_;
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
    size_t size = capacity();
    blocks_.clear();
    blocks_.push_back(make_block(size));
    ++allocations_;
  }
  current_ = 0;
  used_ = 0;
}

}  // namespace reigen
