// Memory for activations: handed out by moving a pointer, taken back all at once or to a mark.
//
// It grows by new blocks while the first steps show what is needed; reset() then joins them into
// one, so that after a few steps no memory is allocated any more.
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

  // Everything handed out since mark() is free again after release(mark).
  struct Mark {
    size_t block = 0;
    size_t used = 0;
  };
  Mark mark() const { return {current_, used_}; }
  void release(Mark mark);
  void reset();

  size_t capacity() const;               // bytes held
  size_t peak() const { return peak_; }  // most bytes in use at once
  uint64_t allocations() const { return allocations_; }
  bool in_one_block() const { return blocks_.size() == 1; }  // reset() will leave it where it is

 private:
  size_t in_use() const;
  void add_block(size_t size);

  DeviceKind kind_;
  std::vector<DeviceBuffer> blocks_;
  size_t current_ = 0;  // block being filled
  size_t used_ = 0;     // of it
  size_t peak_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace reigen
