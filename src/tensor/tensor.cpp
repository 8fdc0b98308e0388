#include "tensor/tensor.h"

namespace reigen {

size_t size_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
  }
  return "unknown";
}

Tensor Tensor::columns(int64_t first, int64_t count) const {
  Tensor view = *this;
  view.data = static_cast<char*>(data) + first * static_cast<int64_t>(size_of(dtype));
  view.cols = count;
  return view;
}

Tensor Tensor::rows_from(int64_t first, int64_t count) const {
  Tensor view = *this;
  view.data = static_cast<char*>(data) + first * stride * static_cast<int64_t>(size_of(dtype));
  view.rows = count;
  return view;
}

Tensor f32_matrix(float* data, int64_t rows, int64_t cols) {
  return {data, DType::kF32, rows, cols, cols};
}

}  // namespace reigen
