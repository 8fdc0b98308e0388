#include "ops/op_test_support.h"

#include <algorithm>
#include <cmath>

namespace reigen {

Buffer::Buffer(int64_t rows, int64_t cols, float value, int64_t stride)
    : rows_(rows),
      cols_(cols),
      stride_(std::max(stride, cols)),
      data_(static_cast<size_t>(rows * stride_), value) {}

Buffer::Buffer(const reference::Matrix& values, int64_t stride)
    : Buffer(values.rows, values.cols, -777, stride) {
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) {
      data_[static_cast<size_t>(r * stride_ + c)] = static_cast<float>(values.at(r, c));
    }
  }
}

reference::Matrix Buffer::values() const {
  reference::Matrix m(rows_, cols_);
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) m.at(r, c) = data_[static_cast<size_t>(r * stride_ + c)];
  }
  return m;
}

double relative_error(const reference::Matrix& got, const reference::Matrix& wanted) {
  if (got.values.size() != wanted.values.size()) return INFINITY;
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    difference += std::pow(got.values[i] - wanted.values[i], 2);
    size += std::pow(wanted.values[i], 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-12);
}

std::vector<uint32_t> offsets_of(const std::vector<uint32_t>& lengths) {
  std::vector<uint32_t> offsets = {0};
  for (uint32_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

std::vector<uint64_t> token_numbers(int64_t rows) {
  std::vector<uint64_t> numbers;
  for (int64_t r = 0; r < rows; ++r) {
    numbers.push_back((uint64_t{1} << 33) + static_cast<uint64_t>(r) * 7919);
  }
  return numbers;
}

Dropout make_dropout(float rate, const std::vector<uint64_t>& tokens) {
  return {rate, {.seed = 0x123456789ABC, .step = 17, .site = 5}, tokens.data()};
}

}  // namespace reigen
