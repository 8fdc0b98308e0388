// Memory for activations: handed out by moving a pointer, taken back all at once or to a mark.
//
// It grows by new blocks while the first steps show what is needed; reset() then joins them into
// one, so that after a few steps no memory is allocated any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace reigen {

class Arena {
 public:
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

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    size_t size = 0;
  };
  static Block make_block(size_t size);
  size_t in_use() const;

  std::vector<Block> blocks_;
  size_t current_ = 0;  // block being filled
  size_t used_ = 0;     // of it
  size_t peak_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace reigen
