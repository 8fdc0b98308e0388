// The CPU's backend with products in bf16, by AMX or AVX-512 BF16 where the processor has them.
//
// Activations stay fp32 and are rounded as a product packs them. Elsewhere the rounded factors are
// multiplied in fp32, so that a run in bf16 continues on every processor with the same numbers up
// to the order of sums.
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/bf16_gemm.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

class Bf16Backend : public CpuBackend {
 public:
  explicit Bf16Backend(const Bf16Kernels& kernels) : kernels_(kernels) {}

  void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
              float alpha, float beta) override {
    const int64_t inner = ta == Transpose::kYes ? a.rows : a.cols;
    if (c.rows == 0 || c.cols == 0 || inner == 0) return;
    multiply_bf16(device, kernels_,
                  {.a = a, .ta = ta, .b = b, .tb = tb, .c = c, .alpha = alpha, .beta = beta});
  }

  void gram(const Device& device, Tensor x, Transpose t, Tensor c) override {
    gram_bf16(device, kernels_, x, t, c);
  }

  std::unique_ptr<PackedWeight> pack_weight(const Device& device, Tensor weight) override {
    return std::make_unique<Bf16Weight>(device, kernels_, weight);
  }

 private:
  const Bf16Kernels& kernels_;
};

// For a processor without instructions for it.
class EmulatedBf16Backend : public CpuBackend {
 public:
  void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
              float alpha, float beta) override {
    thread_local std::vector<float> rounded_a;
    thread_local std::vector<float> rounded_b;
    CpuBackend::matmul(device, rounded(device, a, rounded_a), ta, rounded(device, b, rounded_b), tb,
                       c, alpha, beta);
  }

  void gram(const Device& device, Tensor x, Transpose t, Tensor c) override {
    thread_local std::vector<float> rounded_x;
    CpuBackend::gram(device, rounded(device, x, rounded_x), t, c);
  }

  // The matrix itself is rounded in each product.
  std::unique_ptr<PackedWeight> pack_weight(const Device&, Tensor) override { return nullptr; }

 private:
  static Tensor rounded(const Device& device, Tensor from, std::vector<float>& into) {
    constexpr int64_t kRoundingGrain = 64;  // rows
    const auto count = static_cast<size_t>(from.rows * from.cols);
    if (into.size() < count) into.resize(count);
    float* to = into.data();
    parallel_for(device, from.rows, kRoundingGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        round_to_bf16(from.row(r), to + r * from.cols, static_cast<size_t>(from.cols));
      }
    });
    return f32_matrix(to, from.rows, from.cols);
  }
};

}  // namespace
}  // namespace reigen::cpu

namespace reigen {

bool cpu_has_bf16() {
  static const bool has = cpu::fastest_bf16_kernels() != nullptr;
  return has;
}

std::shared_ptr<DeviceBackend> bf16_cpu_backend(Bf16By by) {
  static const auto emulated = std::make_shared<cpu::EmulatedBf16Backend>();
  if (by == Bf16By::kEmulation || !cpu_has_bf16()) return emulated;
  static const auto native = std::make_shared<cpu::Bf16Backend>(*cpu::fastest_bf16_kernels());
  return native;
}

}  // namespace reigen
