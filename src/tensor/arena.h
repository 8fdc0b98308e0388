// Memory for activations: a bump allocator that is freed all at once or back to a mark.
//
// It grows by new blocks during the first steps; reset() then joins them into one block, so that
// later steps allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/buffer.h"
#include "tensor/tensor.h"

namespace reigen {

class Arena {
 public:
  explicit Arena(DeviceKind kind = DeviceKind::kCpu) : kind_(kind) {}

  Tensor matrix(int64_t rows, int64_t cols, DType dtype = DType::kF32);  // contents undefined
  void* bytes(size_t size);                                              // 64-byte aligned

  // release(mark) frees all memory that was allocated since mark().
  struct Mark {
    size_t block = 0;
    size_t used = 0;
  };
  Mark mark() const { return {current_, used_}; }
  void release(Mark mark);
  void reset();

  size_t capacity() const;               // bytes of all blocks
  size_t peak() const { return peak_; }  // most bytes in use at once
  uint64_t allocations() const { return allocations_; }
  bool in_one_block() const { return blocks_.size() == 1; }  // reset() then moves nothing

 private:
  size_t in_use() const;
  void add_block(size_t size);

  DeviceKind kind_;
  std::vector<DeviceBuffer> blocks_;
  size_t current_ = 0;  // index of the block being filled
  size_t used_ = 0;     // bytes of that block
  size_t peak_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace reigen
