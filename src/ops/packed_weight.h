// Weights in a form of the backend's own, made once when a model is loaded for inference: in the
// layout that its products read fastest, or in int8.
//
// A model that trains has none, because its weights change in every step.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// A matrix whose element [r, c] is values[r * cols + c] * scales[r].
struct Int8Matrix {
  const int8_t* values = nullptr;
  const float* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  bool empty() const { return values == nullptr; }
  const int8_t* row(int64_t r) const { return values + r * cols; }
};

class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  // Whether products read a copy, and no longer the matrix itself.
  virtual bool is_copy() const { return true; }
};

// Null where the backend has no better form than the matrix itself. Sums may be in a different
// order than in matmul().
std::unique_ptr<PackedWeight> pack_weight(const Device& device, Tensor weight);

// Rows of x are rounded to 8 bits when they are multiplied, each with its own scale and offset;
// products and sums of integers are exact, so that a result is the same on every processor, and
// does not depend on the other rows. `weight` must outlive the packed one. Only on the CPU.
std::unique_ptr<PackedWeight> pack_int8(const Device& device, const Int8Matrix& weight);

// y [rows, out] = x [rows, in] w'
void packed_product(const Device& device, Tensor x, const PackedWeight& weight, Tensor y);

}  // namespace reigen
