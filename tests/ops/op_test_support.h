// Between the double-precision reference and the operations: fp32 copies and comparisons.
#pragma once

#include <string>
#include <vector>

#include "ops/reference.h"
#include "tensor/tensor.h"

namespace reigen {

// An fp32 matrix that owns its memory. Rows are `stride` apart, so that views can be tested.
class Buffer {
 public:
  Buffer(int64_t rows, int64_t cols, float value = 0, int64_t stride = 0);
  explicit Buffer(const reference::Matrix& values, int64_t stride = 0);

  Tensor tensor() { return {data_.data(), DType::kF32, rows_, cols_, stride_}; }
  reference::Matrix values() const;

 private:
  int64_t rows_;
  int64_t cols_;
  int64_t stride_;
  std::vector<float> data_;
};

// ||got - wanted|| / ||wanted||.
double relative_error(const reference::Matrix& got, const reference::Matrix& wanted);

// Sentences of these lengths as offsets.
std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths);

// Global token numbers that are neither contiguous nor small, and dropout that uses them.
std::vector<uint64_t> token_numbers(int64_t rows);
Dropout make_dropout(float rate, const std::vector<uint64_t>& tokens);

}  // namespace reigen
