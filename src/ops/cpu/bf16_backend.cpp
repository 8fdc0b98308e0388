// The CPU's backend with products in bf16: twice the rate of fp32 where a processor has AVX-512
// BF16.
//
// Activations stay fp32 and are rounded in each product, which takes 2 to 6% of its time at the
// sizes of the presets. Elsewhere the rounded factors are multiplied in fp32, so that a run in bf16
// continues on every processor with the same numbers up to the order of sums.
#include <algorithm>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/library_weight.h"
#include "ops/cpu/packed_weight.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kRoundingGrain = 64;  // rows

// Rounded factors and a result of one product, which the next one overwrites. The factors are
// `wide` where they are multiplied in fp32.
struct Bf16Scratch {
  std::vector<uint16_t> a;
  std::vector<uint16_t> b;
  std::vector<float> wide_a;
  std::vector<float> wide_b;
  std::vector<float> c;
};

Bf16Scratch& bf16_scratch() {
  thread_local Bf16Scratch scratch;
  return scratch;
}

template <class T>
T* room_for(std::vector<T>& memory, int64_t count) {
  if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

// Without gaps between rows.
template <class T>
T* rounded(const Device& device, Tensor from, std::vector<T>& into) {
  T* to = room_for(into, from.rows * from.cols);
  parallel_for(device, from.rows, kRoundingGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      round_to_bf16(from.row(r), to + r * from.cols, static_cast<size_t>(from.cols));
    }
  });
  return to;
}

class Bf16Weight : public CpuWeight {
 public:
  explicit Bf16Weight(std::unique_ptr<LibraryWeight> weight) : weight_(std::move(weight)) {}

  void multiply(const Device& device, Tensor x, Tensor y) const override {
    Bf16Scratch& scratch = bf16_scratch();
    const uint16_t* from = rounded(device, x, scratch.a);
    const bool gaps = y.stride != y.cols;
    float* to = gaps ? room_for(scratch.c, y.rows * y.cols) : y.row(0);
    weight_->multiply(from, x.rows, to);
    for (int64_t r = 0; gaps && r < y.rows; ++r) std::copy_n(to + r * y.cols, y.cols, y.row(r));
  }

 private:
  std::unique_ptr<LibraryWeight> weight_;
};

class Bf16Backend : public CpuBackend {
 public:
  void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
              float alpha, float beta) override {
    const int64_t inner = ta == Transpose::kYes ? a.rows : a.cols;
    if (c.rows == 0 || c.cols == 0 || inner == 0) return;
    Bf16Scratch& scratch = bf16_scratch();
    multiply_bf16({.a = rounded(device, a, scratch.a),
                   .ta = ta,
                   .b = rounded(device, b, scratch.b),
                   .tb = tb,
                   .c = c.row(0),
                   .c_stride = c.stride,
                   .rows = c.rows,
                   .inner = inner,
                   .cols = c.cols,
                   .alpha = alpha,
                   .beta = beta});
  }

  std::unique_ptr<PackedWeight> pack_weight(const Device& device, Tensor weight) override {
    std::vector<uint16_t> values;
    auto packed = LibraryWeight::pack(ProductType::kBf16, rounded(device, weight, values),
                                      weight.rows, weight.cols);
    if (packed == nullptr) return nullptr;
    return std::make_unique<Bf16Weight>(std::move(packed));
  }
};

// For a processor without instructions for it.
class EmulatedBf16Backend : public CpuBackend {
 public:
  void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
              float alpha, float beta) override {
    Bf16Scratch& scratch = bf16_scratch();
    const Tensor wide_a = f32_matrix(rounded(device, a, scratch.wide_a), a.rows, a.cols);
    const Tensor wide_b = f32_matrix(rounded(device, b, scratch.wide_b), b.rows, b.cols);
    CpuBackend::matmul(device, wide_a, ta, wide_b, tb, c, alpha, beta);
  }

  // The matrix itself is rounded in each product.
  std::unique_ptr<PackedWeight> pack_weight(const Device&, Tensor) override { return nullptr; }
};

}  // namespace
}  // namespace reigen::cpu

namespace reigen {

bool cpu_has_bf16() {
  (void)cpu_backend();  // sets limits that the answer depends on
  static const bool has = cpu::has_bf16_products();
  return has;
}

std::shared_ptr<DeviceBackend> bf16_cpu_backend(Bf16By by) {
  static const auto native = std::make_shared<cpu::Bf16Backend>();
  static const auto emulated = std::make_shared<cpu::EmulatedBf16Backend>();
  if (by == Bf16By::kProcessor && cpu_has_bf16()) return native;
  return emulated;
}

}  // namespace reigen
