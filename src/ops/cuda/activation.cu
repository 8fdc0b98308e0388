// A thread owns eight columns and iterates over rows, so that column sums stay in registers and
// every access is 16 bytes wide.
//
// For ReLU, `out` may be `z` itself, because backward needs only which elements were positive, and
// `mask` stores those as bits ([tokens, width / 8] bytes): 8.25 KiB a token at base size instead of
// 12. (A product could apply the mask as it writes, but cuBLASLt 13.0 has no fast kernel for it:
// 320 us instead of 67 + 50 on an H200.)
#include <algorithm>

#include "ops/cuda/backend.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

// gelu in its tanh form is x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3).
__device__ inline float gelu_inner(float x) {
  return 2 * 0.7978845608F * (x + 0.044715F * x * x * x);
}

template <ActivationKind kKind>
__device__ inline float activate(float x) {
  if constexpr (kKind == ActivationKind::kRelu) return fmaxf(x, 0.0F);
  if constexpr (kKind == ActivationKind::kGelu) return x * sigmoid(gelu_inner(x));
  if constexpr (kKind == ActivationKind::kGeluErf) return x * normcdff(x);
  return x * sigmoid(x);
}

template <ActivationKind kKind>
__device__ inline float slope(float x) {
  if constexpr (kKind == ActivationKind::kRelu) return x > 0 ? 1.0F : 0.0F;
  if constexpr (kKind == ActivationKind::kGeluErf) {
    return normcdff(x) + x * 0.3989422804F * __expf(-0.5F * x * x);
  }
  float inner = 1;
  float s = 0;
  if constexpr (kKind == ActivationKind::kGelu) {
    s = sigmoid(gelu_inner(x));
    inner = 2 * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
  } else {
    s = sigmoid(x);
  }
  return s + x * s * (1 - s) * inner;
}

struct Args {
  const void* z;  // forward: z; backward: z, or out for ReLU
  const float* bias;
  const void* dout;
  void* out;        // forward: out; backward: dz
  uint8_t* mask;    // forward writes, backward reads; or null
  float* partials;  // [blocks in y][width]
  int64_t z_stride, dout_stride, out_stride;
  int rows, width;
  DropArgs drop;
};

template <class T, ActivationKind kKind, bool kDrop>
__global__ __launch_bounds__(kThreads) void forward_kernel(const Args a) {
  const int v = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const Drop d = drop_of<kDrop>(a.drop);
  if (v * 8 >= a.width) return;
  const Eight bias = load8(a.bias + v * 8);
  const int step = static_cast<int>(gridDim.y);
  // Two rows at once: out may be z, so the compiler moves no load across a store.
  constexpr int kAhead = 2;
  for (int first = static_cast<int>(blockIdx.y); first < a.rows; first += kAhead * step) {
    Raw8<T> raw[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int row = first + k * step;
      if (row < a.rows) raw[k] = load_raw(static_cast<const T*>(a.z) + row * a.z_stride + v * 8);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int row = first + k * step;
      if (row >= a.rows) continue;
      Eight y = unpack<T>(raw[k]);
#pragma unroll
      for (int j = 0; j < 8; ++j) y.v[j] = activate<kKind>(y.v[j] + bias.v[j]);
      if constexpr (kDrop) drop8(d, a.drop.tokens[row], static_cast<uint32_t>(v), y);
      store8(static_cast<T*>(a.out) + row * a.out_stride + v * 8, y);
      if (a.mask == nullptr) continue;
      uint32_t bits = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) bits |= (y.v[j] > 0 ? 1u : 0u) << j;
      a.mask[static_cast<int64_t>(row) * (a.width / 8) + v] = static_cast<uint8_t>(bits);
    }
  }
}

// ReLU's gradient from the bits that forward stored. The last rows come first: the product before
// has just written them, and they are still in the L2 cache (45 us instead of 51 at base size).
template <class T>
__global__ __launch_bounds__(kThreads) void masked_backward_kernel(const Args a) {
  const int v = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (v * 8 >= a.width) return;
  Eight sums = zero8();
  const int step = static_cast<int>(gridDim.y);
  // Four rows in flight: dz may be dout, so the compiler moves no load across a store.
  constexpr int kAhead = 4;
  const int last = a.rows - 1 - static_cast<int>(blockIdx.y);
  for (int first = last; first >= 0; first -= kAhead * step) {
    Raw8<T> raw[kAhead];
    uint32_t bits[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int row = first - k * step;
      if (row < 0) continue;
      raw[k] = load_raw(static_cast<const T*>(a.dout) + row * a.dout_stride + v * 8);
      bits[k] = a.mask[static_cast<int64_t>(row) * (a.width / 8) + v];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int row = first - k * step;
      if (row < 0) continue;
      Eight g = unpack<T>(raw[k]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        g.v[j] *= (bits[k] >> j & 1) != 0 ? a.drop.scale : 0.0F;
        sums.v[j] += g.v[j];
      }
      store8(static_cast<T*>(a.out) + row * a.out_stride + v * 8, g);
    }
  }
  store8(a.partials + static_cast<int64_t>(blockIdx.y) * a.width + v * 8, sums);
}

template <class T, ActivationKind kKind, bool kDrop>
__global__ __launch_bounds__(kThreads) void backward_kernel(const Args a) {
  const int v = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const Drop d = drop_of<kDrop>(a.drop);
  if (v * 8 >= a.width) return;
  constexpr bool kRelu = kKind == ActivationKind::kRelu;
  const Eight bias = kRelu ? zero8() : load8(a.bias + v * 8);
  Eight sums = zero8();
  const int step = static_cast<int>(gridDim.y);
#pragma unroll 2
  for (int row = static_cast<int>(blockIdx.y); row < a.rows; row += step) {
    Eight g = load8(static_cast<const T*>(a.dout) + row * a.dout_stride + v * 8);
    const Eight z = load8(static_cast<const T*>(a.z) + row * a.z_stride + v * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      // Elements that passed ReLU and dropout are the positive ones of the output.
      g.v[j] *= kRelu ? (z.v[j] > 0 ? a.drop.scale : 0.0F) : slope<kKind>(z.v[j] + bias.v[j]);
    }
    if constexpr (kDrop && !kRelu) {
      drop8(d, a.drop.tokens[row], static_cast<uint32_t>(v), g);
    }
    store8(static_cast<T*>(a.out) + row * a.out_stride + v * 8, g);
#pragma unroll
    for (int j = 0; j < 8; ++j) sums.v[j] += g.v[j];
  }
  store8(a.partials + static_cast<int64_t>(blockIdx.y) * a.width + v * 8, sums);
}

template <class T>
__global__ __launch_bounds__(kThreads) void add_bias_kernel(const Args a) {
  const int v = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (v * 8 >= a.width) return;
  const Eight bias = load8(a.bias + v * 8);
  for (int row = static_cast<int>(blockIdx.y); row < a.rows; row += static_cast<int>(gridDim.y)) {
    T* at = static_cast<T*>(a.out) + row * a.out_stride + v * 8;
    Eight y = load8(static_cast<const T*>(at));
#pragma unroll
    for (int j = 0; j < 8; ++j) y.v[j] += bias.v[j];
    store8(at, y);
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void bias_backward_kernel(const Args a) {
  const int v = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (v * 8 >= a.width) return;
  Eight sums = zero8();
#pragma unroll 4
  for (int row = static_cast<int>(blockIdx.y); row < a.rows; row += static_cast<int>(gridDim.y)) {
    const Eight g = load8(static_cast<const T*>(a.dout) + row * a.dout_stride + v * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) sums.v[j] += g.v[j];
  }
  store8(a.partials + static_cast<int64_t>(blockIdx.y) * a.width + v * 8, sums);
}

template <class F>
void with_kind(ActivationKind kind, bool drop, F f) {
  auto call = [&](auto constant) {
    if (drop) return f(constant, std::true_type());
    f(constant, std::false_type());
  };
  switch (kind) {
    case ActivationKind::kRelu:
      return call(std::integral_constant<ActivationKind, ActivationKind::kRelu>());
    case ActivationKind::kGelu:
      return call(std::integral_constant<ActivationKind, ActivationKind::kGelu>());
    case ActivationKind::kSwish:
      return call(std::integral_constant<ActivationKind, ActivationKind::kSwish>());
    case ActivationKind::kGeluErf:
      return call(std::integral_constant<ActivationKind, ActivationKind::kGeluErf>());
  }
}

// Blocks of 256 threads side by side over the width, and enough rows of blocks to fill the chip.
dim3 grid_for(const Context& context, int64_t rows, int64_t width, int blocks_each) {
  require(width % 8 == 0, "a width that is a multiple of 8");
  const int64_t across = (width / 8 + kThreads - 1) / kThreads;
  const int64_t down =
      std::max<int64_t>(1, int64_t{context.multiprocessors()} * blocks_each / across);
  return {static_cast<unsigned>(across), static_cast<unsigned>(std::min(rows, down))};
}

}  // namespace

size_t CudaBackend::activation_mask_bytes(const Device&, ActivationKind kind, int64_t rows,
                                          int64_t cols) {
  return kind == ActivationKind::kRelu ? static_cast<size_t>(rows * cols / 8) : 0;
}

void CudaBackend::activation_forward(const Device&, const Activation& op) {
  if (op.z.rows == 0) return;
  Args a{};
  a.z = op.z.data;
  a.bias = data_of<float>(op.bias);
  a.out = op.out.data;
  a.mask = static_cast<uint8_t*>(op.mask);
  a.z_stride = op.z.stride;
  a.out_stride = op.out.stride;
  a.rows = static_cast<int>(op.z.rows);
  a.width = static_cast<int>(op.z.cols);
  a.drop = drop_args(context_, op.dropout);
  const dim3 grid = grid_for(context_, op.z.rows, op.z.cols, 16);
  with_type(op.z.dtype, [&](auto t) {
    with_kind(op.kind, a.drop.threshold > 0, [&](auto kind, auto drop) {
      forward_kernel<decltype(t), decltype(kind)::value, decltype(drop)::value>
          <<<grid, kThreads, 0, context_.stream()>>>(a);
    });
  });
  check_launch("activation_forward");
}

void CudaBackend::activation_backward(const Device&, const Activation& op, Tensor dout, Tensor dz,
                                      Tensor dbias) {
  if (dout.rows == 0) return;
  Args a{};
  const Tensor& read = op.kind == ActivationKind::kRelu ? op.out : op.z;
  a.z = read.data;
  a.bias = data_of<float>(op.bias);
  a.dout = dout.data;
  a.out = dz.data;
  a.z_stride = read.stride;
  a.dout_stride = dout.stride;
  a.out_stride = dz.stride;
  a.rows = static_cast<int>(dout.rows);
  a.width = static_cast<int>(dout.cols);
  a.drop = drop_args(context_, op.dropout);
  const dim3 grid = grid_for(context_, dout.rows, dout.cols, 4);
  a.partials = context_.sums().reserve(context_.stream(), static_cast<int>(grid.y),
                                       {{data_of<float>(dbias)}, 1, a.width});
  const bool masked = op.mask != nullptr && op.kind == ActivationKind::kRelu;
  a.mask = static_cast<uint8_t*>(op.mask);
  with_type(dout.dtype, [&](auto t) {
    if (masked) {
      masked_backward_kernel<decltype(t)><<<grid, kThreads, 0, context_.stream()>>>(a);
      return;
    }
    with_kind(op.kind, a.drop.threshold > 0, [&](auto kind, auto drop) {
      backward_kernel<decltype(t), decltype(kind)::value, decltype(drop)::value>
          <<<grid, kThreads, 0, context_.stream()>>>(a);
    });
  });
  check_launch("activation_backward");
}

void CudaBackend::add_bias(const Device&, Tensor y, Tensor bias) {
  if (y.rows == 0) return;
  Args a{};
  a.bias = data_of<float>(bias);
  a.out = y.data;
  a.out_stride = y.stride;
  a.rows = static_cast<int>(y.rows);
  a.width = static_cast<int>(y.cols);
  const dim3 grid = grid_for(context_, y.rows, y.cols, 16);
  with_type(y.dtype, [&](auto t) {
    add_bias_kernel<decltype(t)><<<grid, kThreads, 0, context_.stream()>>>(a);
  });
  check_launch("add_bias");
}

void CudaBackend::bias_backward(const Device&, Tensor dy, Tensor dbias) {
  if (dy.rows == 0) return;
  Args a{};
  a.dout = dy.data;
  a.dout_stride = dy.stride;
  a.rows = static_cast<int>(dy.rows);
  a.width = static_cast<int>(dy.cols);
  const dim3 grid = grid_for(context_, dy.rows, dy.cols, 4);
  a.partials = context_.sums().reserve(context_.stream(), static_cast<int>(grid.y),
                                       {{data_of<float>(dbias)}, 1, a.width});
  with_type(dy.dtype, [&](auto t) {
    bias_backward_kernel<decltype(t)><<<grid, kThreads, 0, context_.stream()>>>(a);
  });
  check_launch("bias_backward");
}

}  // namespace reigen::cuda
