// One pass that moves 12 bytes a parameter: 0.17 ms for the 61 million of `base` at the 4.26 TB/s
// that copies reach on an H200 (computed).
#include "ops/ema.h"

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kEmaThreads = 256;

__global__ __launch_bounds__(kEmaThreads) void ema_kernel(const float4* from, float4* to,
                                                          int64_t quads, float share) {
  const int64_t quad = int64_t{blockIdx.x} * kEmaThreads + threadIdx.x;
  if (quad >= quads) return;
  const float4 p = from[quad];
  float4 a = to[quad];
  a.x = fmaf(share, p.x - a.x, a.x);
  a.y = fmaf(share, p.y - a.y, a.y);
  a.z = fmaf(share, p.z - a.z, a.z);
  a.w = fmaf(share, p.w - a.w, a.w);
  to[quad] = a;
}

}  // namespace

void CudaBackend::ema_step(const Device&, double weight, std::span<const float> parameters,
                           std::span<float> average) {
  const auto count = static_cast<int64_t>(average.size());
  if (count == 0) return;
  require(count % 4 == 0, "buffers of a multiple of 4 elements in ema_step");
  const int64_t quads = count / 4;
  const auto blocks = static_cast<unsigned>((quads + kEmaThreads - 1) / kEmaThreads);
  ema_kernel<<<blocks, kEmaThreads, 0, context_.stream()>>>(
      reinterpret_cast<const float4*>(parameters.data()), reinterpret_cast<float4*>(average.data()),
      quads, static_cast<float>(weight));
  check_launch("ema_step");
}

}  // namespace reigen::cuda
