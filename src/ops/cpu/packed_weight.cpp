#include "ops/packed_weight.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/library_weight.h"
#include "ops/cpu/packed_weight.h"

namespace reigen::cpu {
namespace {

class FloatWeight : public CpuWeight {
 public:
  explicit FloatWeight(std::unique_ptr<LibraryWeight> weight) : weight_(std::move(weight)) {}

  void multiply(const Device&, Tensor x, Tensor y) const override {
    if (x.stride == x.cols && y.stride == y.cols) {
      return weight_->multiply(x.data, x.rows, y.data);
    }
    // A pass of the model has no gaps.
    const Matrix dense_x(x.rows, x.cols);
    const Matrix dense_y(y.rows, y.cols);
    copy_rows(x, dense_x.view);
    weight_->multiply(dense_x.view.data, x.rows, dense_y.view.data);
    copy_rows(dense_y.view, y);
  }

 private:
  struct Matrix {
    Matrix(int64_t rows, int64_t cols)
        : values(static_cast<size_t>(rows * cols)), view(f32_matrix(values.data(), rows, cols)) {}
    std::vector<float> values;
    Tensor view;
  };
  static void copy_rows(Tensor from, Tensor to) {
    for (int64_t r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.row(r));
  }

  std::unique_ptr<LibraryWeight> weight_;
};

}  // namespace

std::unique_ptr<PackedWeight> CpuBackend::pack_weight(const Device&, Tensor weight) {
  if (weight.stride != weight.cols) return nullptr;
  auto packed = LibraryWeight::pack(ProductType::kFloat, weight.data, weight.rows, weight.cols);
  if (packed == nullptr) return nullptr;
  return std::make_unique<FloatWeight>(std::move(packed));
}

void CpuBackend::packed_product(const Device& device, Tensor x, const PackedWeight& weight,
                                Tensor y) {
  if (x.rows == 0) return;
  static_cast<const CpuWeight&>(weight).multiply(device, x, y);
}

}  // namespace reigen::cpu
