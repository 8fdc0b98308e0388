// A view of a matrix in device memory: pointer, element type, rows, columns, row stride.
//
// It owns nothing and is passed by value. Activations are [tokens, width]; there are no other
// shapes, because sentences are packed and never padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reigen {

enum class DType : uint8_t { kF32, kBF16, kF16 };

size_t size_of(DType dtype);
const char* name_of(DType dtype);

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  bool empty() const { return data == nullptr; }

  // For code that knows it holds fp32 in host memory.
  float* row(int64_t r) const { return static_cast<float*>(data) + r * stride; }
  std::span<float> row_span(int64_t r) const { return {row(r), static_cast<size_t>(cols)}; }

  Tensor columns(int64_t first, int64_t count) const;
  Tensor rows_from(int64_t first, int64_t count) const;
};

// A view of contiguous fp32 memory.
Tensor f32_matrix(float* data, int64_t rows, int64_t cols);

}  // namespace reigen
