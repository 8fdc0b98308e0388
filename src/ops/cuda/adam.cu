// Both kernels move what they must and no more: the norm 4 bytes a parameter, Adam 30 (34 when it
// clears the gradient). Buffers of a ParameterLayout are whole multiples of 16 elements.
#include "ops/cuda/adam.h"

#include <cmath>

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kThreads = 256;

__device__ double block_sum(double x) {
  __shared__ double parts[32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  double total = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) total += parts[w];
  return total;
}

__global__ __launch_bounds__(kThreads) void squares_kernel(const float4* gradient, int64_t quads,
                                                           const float* tail, int tail_count,
                                                           double* partials) {
  double total = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  // Four quads in flight; sixteen squares are added in fp32 before they join the double.
  for (; i + 3 * step < quads; i += 4 * step) {
    float sum = 0;
    float4 g[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) g[k] = gradient[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum += g[k].x * g[k].x + g[k].y * g[k].y + g[k].z * g[k].z + g[k].w * g[k].w;
    }
    total += static_cast<double>(sum);
  }
  for (; i < quads; i += step) {
    const float4 g = gradient[i];
    total += static_cast<double>(g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w);
  }
  if (blockIdx.x == 0 && static_cast<int>(threadIdx.x) < tail_count) {
    total += static_cast<double>(tail[threadIdx.x]) * static_cast<double>(tail[threadIdx.x]);
  }
  const double sum = block_sum(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ __launch_bounds__(kThreads) void control_kernel(const double* partials, int count,
                                                           NormOptions options,
                                                           StepControl* control) {
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) total += partials[i];
  total = block_sum(total);
  if (threadIdx.x != 0) return;
  const double norm = sqrt(total) * options.unscale;
  const bool finite = isfinite(norm);
  double factor = options.unscale;
  if (options.clip > 0 && norm > options.clip) factor *= options.clip / norm;
  *control = {norm, finite ? static_cast<float>(factor) : 0.0F, finite ? 0u : 1u};
}

struct AdamArgs {
  float4* gradient;
  float4* parameters;
  float4* first;
  float4* second;
  void* copy;
  const StepControl* control;
  int64_t count;  // elements
  float beta1, rest1, beta2, rest2, epsilon, rate, root, keep, scale;
  bool clear;
};

__device__ inline void adam_element(const AdamArgs& a, float scale, float g, float& p, float& m,
                                    float& v) {
  g *= scale;
  m = fmaf(a.rest1, g, a.beta1 * m);
  v = fmaf(a.rest2, g * g, a.beta2 * v);
  p = fmaf(-a.rate, m / fmaf(sqrtf(v), a.root, a.epsilon), a.keep * p);
}

template <class T>
__device__ inline void store_copy(void* copy, int64_t quad, float4 p) {
  static_cast<uint2*>(copy)[quad] = {pack2(p.x, p.y, T()), pack2(p.z, p.w, T())};
}
template <>
__device__ inline void store_copy<float>(void* copy, int64_t quad, float4 p) {
  static_cast<float4*>(copy)[quad] = p;
}

template <class T>
__global__ __launch_bounds__(kThreads) void adam_kernel(const AdamArgs a) {
  const int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (quad * 4 >= a.count) return;
  float scale = a.scale;
  bool skip = false;
  if (a.control != nullptr) {
    scale *= a.control->factor;
    skip = a.control->skip != 0;
  }
  if (!skip) {
    const float4 g = a.gradient[quad];
    float4 p = a.parameters[quad];
    float4 m = a.first[quad];
    float4 v = a.second[quad];
    adam_element(a, scale, g.x, p.x, m.x, v.x);
    adam_element(a, scale, g.y, p.y, m.y, v.y);
    adam_element(a, scale, g.z, p.z, m.z, v.z);
    adam_element(a, scale, g.w, p.w, m.w, v.w);
    a.parameters[quad] = p;
    a.first[quad] = m;
    a.second[quad] = v;
    if (a.copy != nullptr) store_copy<T>(a.copy, quad, p);
  }
  if (a.clear) a.gradient[quad] = {0, 0, 0, 0};
}

template <class T>
__global__ __launch_bounds__(kThreads) void convert_kernel(const float4* from, void* to,
                                                           int64_t quads) {
  const int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (quad < quads) store_copy<T>(to, quad, from[quad]);
}

unsigned blocks_for(int64_t quads) {
  return static_cast<unsigned>((quads + kThreads - 1) / kThreads);
}

}  // namespace

void global_norm(const Context& context, std::span<const float> gradient,
                 const NormOptions& options, StepControl* control) {
  const int blocks = context.multiprocessors() * 8;
  auto* partials =
      static_cast<double*>(context.scratch(sizeof(double) * static_cast<size_t>(blocks)));
  const auto count = static_cast<int64_t>(gradient.size());
  squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, context.stream()>>>(
      reinterpret_cast<const float4*>(gradient.data()), count / 4, gradient.data() + count / 4 * 4,
      static_cast<int>(count % 4), partials);
  check_launch("global_norm");
  control_kernel<<<1, kThreads, 0, context.stream()>>>(partials, blocks, options, control);
  check_launch("global_norm");
}

void adam_step(const Context& context, const AdamStep& options, const AdamBuffers& buffers,
               const StepControl* control, bool clear) {
  const auto count = static_cast<int64_t>(buffers.gradient.size());
  if (count == 0) return;
  require(count % 4 == 0, "buffers of a multiple of 4 elements in adam_step");
  const auto step = static_cast<double>(options.step);
  AdamArgs a{};
  a.gradient = reinterpret_cast<float4*>(buffers.gradient.data());
  a.parameters = reinterpret_cast<float4*>(buffers.parameters.data());
  a.first = reinterpret_cast<float4*>(buffers.first_moment.data());
  a.second = reinterpret_cast<float4*>(buffers.second_moment.data());
  a.copy = buffers.compute_copy;
  a.control = control;
  a.count = count;
  a.beta1 = static_cast<float>(options.beta1);
  a.rest1 = static_cast<float>(1 - options.beta1);
  a.beta2 = static_cast<float>(options.beta2);
  a.rest2 = static_cast<float>(1 - options.beta2);
  a.epsilon = static_cast<float>(options.epsilon);
  a.rate = static_cast<float>(options.rate / (1 - std::pow(options.beta1, step)));
  a.root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  a.keep = static_cast<float>(1 - options.rate * options.weight_decay);
  a.scale = static_cast<float>(options.gradient_scale);
  a.clear = clear;
  with_type(buffers.compute_type, [&](auto t) {
    adam_kernel<decltype(t)><<<blocks_for(count / 4), kThreads, 0, context.stream()>>>(a);
  });
  check_launch("adam_step");
}

void convert(const Context& context, std::span<const float> from, void* to, DType type) {
  const auto count = static_cast<int64_t>(from.size());
  if (count == 0) return;
  require(count % 4 == 0, "buffers of a multiple of 4 elements in convert");
  with_type(type, [&](auto t) {
    convert_kernel<decltype(t)><<<blocks_for(count / 4), kThreads, 0, context.stream()>>>(
        reinterpret_cast<const float4*>(from.data()), to, count / 4);
  });
  check_launch("convert");
}

}  // namespace reigen::cuda
