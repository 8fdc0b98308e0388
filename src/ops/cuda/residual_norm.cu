// A warp owns a row and holds it in registers, so each tensor is read or written once. The kernels
// are limited by memory: at base width forward moves 4 KiB a token and backward 5.
//
// x, h, dh and dx share a type (the residual stream); branch, n and their gradients share one.
// Widths are multiples of 8, up to 2,048.
#include <algorithm>

#include "ops/cuda/backend.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kWarps = 8;          // in a block of backward
constexpr int kForwardWarps = 4;   // in a block of forward
constexpr int kForwardBlocks = 4;  // of forward that share a multiprocessor

struct ForwardArgs {
  const void* x;
  const void* branch;
  const float* bias;
  const float* gain;
  const float* shift;
  void* h;
  void* n;
  float* stats;
  int64_t x_stride, branch_stride, h_stride, n_stride, stats_stride;
  int rows, width;
  DropArgs drop;
};

// Writes the norm of a row, and its statistics. gain(i) and shift(i) are those of the lane's vector
// i.
template <class T, int kVecs, class Gain, class Shift>
__device__ inline void normalise(const ForwardArgs& a, int row, const Eight (&x)[kVecs],
                                 const Gain& gain, const Shift& shift) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int vectors = a.width / 8;
  const float share = 1.0F / static_cast<float>(a.width);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += x[i].v[j];
  }
  const float mean = warp_sum(sum) * share;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (lane + 32 * i >= vectors) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float centered = x[i].v[j] - mean;
      squares = fmaf(centered, centered, squares);
    }
  }
  const float inverse = rsqrtf(warp_sum(squares) * share + 1e-5F);
  const float offset = -mean * inverse;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int v = lane + 32 * i;
    if (v >= vectors) continue;
    const Eight g = gain(i);
    const Eight s = shift(i);
    Eight n;
#pragma unroll
    for (int j = 0; j < 8; ++j) n.v[j] = fmaf(fmaf(x[i].v[j], inverse, offset), g.v[j], s.v[j]);
    store8(static_cast<T*>(a.n) + row * a.n_stride + v * 8, n);
  }
  if (lane == 0) {
    a.stats[row * a.stats_stride] = mean;
    a.stats[row * a.stats_stride + 1] = inverse;
  }
}

// Without a branch: the first norm of a stack. T: n; H: the residual stream. A lane holds vectors
// lane, lane + 32, ... of eight.
template <class T, class H, int kVecs>
__global__ __launch_bounds__(32 * kForwardWarps) void norm_forward_kernel(const ForwardArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int vectors = a.width / 8;
  const int row = static_cast<int>(blockIdx.x) * kForwardWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= a.rows) return;
  Eight x[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int v = lane + 32 * i;
    x[i] = v < vectors ? load8(static_cast<const H*>(a.x) + row * a.x_stride + v * 8) : zero8();
  }
  normalise<T, kVecs>(
      a, row, x, [&](int i) { return load8_fixed(a.gain + (lane + 32 * i) * 8); },
      [&](int i) { return load8_fixed(a.shift + (lane + 32 * i) * 8); });
}

// Vectors of a gain, shift or bias of a lane: in registers where there are few, else read each
// time.
template <int kVecs>
struct Columns {
  static constexpr bool kHeld = kVecs <= 2;
  const float* from;
  Eight held[kHeld ? kVecs : 1];

  __device__ Columns(const float* data, int vectors) : from(data) {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        const int v = static_cast<int>(threadIdx.x) % 32 + 32 * i;
        held[i] = data != nullptr && v < vectors ? load8_fixed(data + v * 8) : zero8();
      }
    }
  }
  __device__ Eight operator()(int i) const {
    if constexpr (kHeld) return held[i];
    if (from == nullptr) return zero8();
    return load8_fixed(from + (static_cast<int>(threadIdx.x) % 32 + 32 * i) * 8);
  }
};

// The two rows of a token that are added, as they lie in memory.
template <class T, class H, int kVecs, bool kDrop>
struct SumRows {
  Raw8<H> x[kVecs];
  Raw8<T> branch[kVecs];
  uint64_t token = 0;

  __device__ void load(const ForwardArgs& a, int row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int v = lane + 32 * i;
      if (v * 8 >= a.width) continue;
      x[i] = load_raw(static_cast<const H*>(a.x) + row * a.x_stride + v * 8);
      branch[i] = load_raw(static_cast<const T*>(a.branch) + row * a.branch_stride + v * 8);
    }
    if constexpr (kDrop) token = a.drop.tokens[row];
  }
};

// With a branch. Warps iterate over rows with gain, shift and bias in registers; the next row is
// loaded while this one is processed. The last rows come first: the product before has just written
// their branch, which is still in the L2 cache. Together 26 us instead of 30 at base size.
template <class T, class H, int kVecs, bool kDrop>
__global__ __launch_bounds__(32 * kForwardWarps, kVecs <= 2 ? kForwardBlocks : 2)  //
    void sum_norm_kernel(const ForwardArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int vectors = a.width / 8;
  const int warps = static_cast<int>(gridDim.x) * kForwardWarps;
  const Drop d = drop_of<kDrop>(a.drop);
  const Columns<kVecs> bias(a.bias, vectors), gain(a.gain, vectors), shift(a.shift, vectors);
  const int warp =
      static_cast<int>(blockIdx.x) * kForwardWarps + static_cast<int>(threadIdx.x) / 32;
  int row = a.rows - 1 - warp;
  SumRows<T, H, kVecs, kDrop> next;
  if (row >= 0) next.load(a, row);
  for (; row >= 0; row -= warps) {
    const SumRows<T, H, kVecs, kDrop> now = next;
    if (row >= warps) next.load(a, row - warps);
    Eight x[kVecs];
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int v = lane + 32 * i;
      x[i] = zero8();
      if (v >= vectors) continue;
      Eight y = unpack<T>(now.branch[i]);
      const Eight b = bias(i);
#pragma unroll
      for (int j = 0; j < 8; ++j) y.v[j] += b.v[j];
      if constexpr (kDrop) drop8(d, now.token, static_cast<uint32_t>(v), y);
      const Eight old = unpack<H>(now.x[i]);
#pragma unroll
      for (int j = 0; j < 8; ++j) y.v[j] += old.v[j];
      // Rounded as it is stored, so that backward sees the numbers that were normalised.
      const Raw8<H> rounded = pack<H>(y);
      x[i] = unpack<H>(rounded);
      *reinterpret_cast<Raw8<H>*>(static_cast<H*>(a.h) + row * a.h_stride + v * 8) = rounded;
    }
    normalise<T, kVecs>(a, row, x, gain, shift);
  }
}

struct BackwardArgs {
  const void* dn;
  const void* dh;  // or null
  const void* h;
  const float* gain;
  const float* stats;
  void* dx;
  void* dbranch;    // or null
  float* partials;  // [blocks][gain, shift, bias][width]
  int64_t dn_stride, dh_stride, h_stride, stats_stride, dx_stride, dbranch_stride;
  int rows, width;
  DropArgs drop;
};

// Adds the warps' sums in the order of warps and writes the block's sum to `out`.
template <int kVecs>
__device__ void fold_block(const Eight (&sums)[kVecs], float* shared, int width, float* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();  // all readers of the previous sums are done
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int v = lane + 32 * i;
    if (v < width / 8) store8(shared + warp * width + v * 8, sums[i]);
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < width; c += 32 * kWarps) {
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += shared[w * width + c];
    out[c] = total;
  }
}

// The three rows of a token, as they lie in memory.
template <class T, class H, int kVecs>
struct TokenRows {
  Raw8<H> h[kVecs];
  Raw8<T> dn[kVecs];
  Raw8<H> dh[kVecs];
  float mean;
  float inverse;

  __device__ void load(const BackwardArgs& a, int row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int v = lane + 32 * i;
      if (v * 8 >= a.width) continue;
      h[i] = load_raw(static_cast<const H*>(a.h) + row * a.h_stride + v * 8);
      dn[i] = load_raw(static_cast<const T*>(a.dn) + row * a.dn_stride + v * 8);
      if (a.dh != nullptr) {
        dh[i] = load_raw(static_cast<const H*>(a.dh) + row * a.dh_stride + v * 8);
      }
    }
    mean = a.stats[row * a.stats_stride];
    inverse = a.stats[row * a.stats_stride + 1];
  }
};

// The next row is loaded while this one is processed. Two blocks must fit a multiprocessor:
// with one, memory waits for arithmetic (60 us instead of 35 at base size).
template <class T, class H, int kVecs, bool kDrop>
__global__ __launch_bounds__(32 * kWarps,
                             kVecs <= 2 ? 2 : 1) void norm_backward_kernel(const BackwardArgs a) {
  extern __shared__ float shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  const int vectors = a.width / 8;
  const Drop d = drop_of<kDrop>(a.drop);
  const float share = 1.0F / static_cast<float>(a.width);
  Eight dgain[kVecs], dshift[kVecs], dbias[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) dgain[i] = dshift[i] = dbias[i] = zero8();
  int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  TokenRows<T, H, kVecs> next;
  if (row < a.rows) next.load(a, row);
  for (; row < a.rows; row += warps) {
    const TokenRows<T, H, kVecs> now = next;
    if (row + warps < a.rows) next.load(a, row + warps);
    const float offset = -now.mean * now.inverse;
    float sum = 0;
    float sum_x = 0;
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int v = lane + 32 * i;
      if (v >= vectors) continue;
      const Eight gain = load8_fixed(a.gain + v * 8);
      const Eight h = unpack<H>(now.h[i]);
      const Eight dn = unpack<T>(now.dn[i]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float normed = fmaf(h.v[j], now.inverse, offset);
        dgain[i].v[j] = fmaf(dn.v[j], normed, dgain[i].v[j]);
        dshift[i].v[j] += dn.v[j];
        const float dy = dn.v[j] * gain.v[j];
        sum += dy;
        sum_x = fmaf(dy, normed, sum_x);
      }
    }
    const float mean_dy = warp_sum(sum) * share;
    const float mean_dyx = warp_sum(sum_x) * share;
    const uint64_t token = kDrop ? a.drop.tokens[row] : 0;
    // inverse * (dy - mean_dy - normed * mean_dyx), where normed = h * inverse + offset.
    const float of_h = -now.inverse * now.inverse * mean_dyx;
    const float constant = -now.inverse * fmaf(offset, mean_dyx, mean_dy);
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int v = lane + 32 * i;
      if (v >= vectors) continue;
      const Eight gain = load8_fixed(a.gain + v * 8);
      const Eight h = unpack<H>(now.h[i]);
      const Eight dn = unpack<T>(now.dn[i]);
      Eight dx = a.dh != nullptr ? unpack<H>(now.dh[i]) : zero8();
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        dx.v[j] += fmaf(now.inverse, dn.v[j] * gain.v[j], fmaf(of_h, h.v[j], constant));
      }
      store8(static_cast<H*>(a.dx) + row * a.dx_stride + v * 8, dx);
      if (a.dbranch == nullptr) continue;
      if constexpr (kDrop) drop8(d, token, static_cast<uint32_t>(v), dx);
      store8(static_cast<T*>(a.dbranch) + row * a.dbranch_stride + v * 8, dx);
#pragma unroll
      for (int j = 0; j < 8; ++j) dbias[i].v[j] += dx.v[j];
    }
  }
  float* out = a.partials + static_cast<int64_t>(blockIdx.x) * 3 * a.width;
  fold_block(dgain, shared, a.width, out);
  fold_block(dshift, shared, a.width, out + a.width);
  fold_block(dbias, shared, a.width, out + 2 * a.width);
}

// Calls f with the vectors of eight per lane as a constant.
template <class F>
void with_vectors(int64_t width, F f) {
  require(width % 8 == 0 && width <= 2048, "a width that is a multiple of 8, at most 2048");
  if (width <= 256) return f(std::integral_constant<int, 1>());
  if (width <= 512) return f(std::integral_constant<int, 2>());
  if (width <= 1024) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 8>());
}

template <class F>
void with_types(DType branch, DType residual, F f) {
  with_type(branch, [&](auto t) {
    using T = decltype(t);
    if (residual == branch) return f(T(), T());
    require(residual == DType::kF32, "a residual of the branch's type or fp32");
    f(T(), float());
  });
}

}  // namespace

void CudaBackend::residual_norm_forward(const Device&, const ResidualNorm& op) {
  if (op.x.rows == 0) return;
  ForwardArgs a{};
  a.x = op.x.data;
  a.branch = op.branch.data;
  a.bias = data_of<float>(op.bias);
  a.gain = data_of<float>(op.gain);
  a.shift = data_of<float>(op.shift);
  a.h = op.h.data;
  a.n = op.n.data;
  a.stats = data_of<float>(op.stats);
  a.x_stride = op.x.stride;
  a.branch_stride = op.branch.stride;
  a.h_stride = op.h.stride;
  a.n_stride = op.n.stride;
  a.stats_stride = op.stats.stride;
  a.rows = static_cast<int>(op.x.rows);
  a.width = static_cast<int>(op.x.cols);
  a.drop = drop_args(context_, op.dropout);
  const int64_t all = (op.x.rows + kForwardWarps - 1) / kForwardWarps;
  const auto resident = std::min<int64_t>(all, kForwardBlocks * context_.multiprocessors());
  with_types(op.n.dtype, op.x.dtype, [&](auto t, auto h) {
    using T = decltype(t);
    using H = decltype(h);
    with_vectors(op.x.cols, [&](auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      const auto kernel = op.branch.empty()       ? norm_forward_kernel<T, H, kVecs>
                          : a.drop.threshold == 0 ? sum_norm_kernel<T, H, kVecs, false>
                                                  : sum_norm_kernel<T, H, kVecs, true>;
      const auto blocks = static_cast<unsigned>(op.branch.empty() ? all : resident);
      kernel<<<blocks, 32 * kForwardWarps, 0, context_.stream()>>>(a);
    });
  });
  check_launch("residual_norm_forward");
}

void CudaBackend::residual_norm_backward(const Device&, const ResidualNorm& op,
                                         const ResidualNormGrad& grad) {
  const int64_t rows = grad.dn.rows;
  if (rows == 0) return;
  const Tensor& h = op.branch.empty() ? op.x : op.h;
  BackwardArgs a{};
  a.dn = grad.dn.data;
  a.dh = grad.dh.data;
  a.h = h.data;
  a.gain = data_of<float>(op.gain);
  a.stats = data_of<float>(op.stats);
  a.dx = grad.dx.data;
  a.dbranch = grad.dbranch.data;
  a.dn_stride = grad.dn.stride;
  a.dh_stride = grad.dh.stride;
  a.h_stride = h.stride;
  a.stats_stride = op.stats.stride;
  a.dx_stride = grad.dx.stride;
  a.dbranch_stride = grad.dbranch.stride;
  a.rows = static_cast<int>(rows);
  a.width = static_cast<int>(grad.dn.cols);
  a.drop = drop_args(context_, op.dropout);
  // Two blocks fit a multiprocessor; more would only add partial sums.
  const int blocks = static_cast<int>(
      std::min<int64_t>((rows + kWarps - 1) / kWarps, 2 * context_.multiprocessors()));
  a.partials = context_.sums().reserve(
      context_.stream(), blocks,
      {{data_of<float>(grad.dgain), data_of<float>(grad.dshift), data_of<float>(grad.dbias)},
       3,
       a.width});
  const size_t shared = kWarps * static_cast<size_t>(a.width) * sizeof(float);
  with_types(grad.dn.dtype, grad.dx.dtype, [&](auto t, auto r) {
    using T = decltype(t);
    using H = decltype(r);
    with_vectors(grad.dn.cols, [&](auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      const auto kernel = a.drop.threshold == 0 || op.branch.empty()
                              ? norm_backward_kernel<T, H, kVecs, false>
                              : norm_backward_kernel<T, H, kVecs, true>;
      if (shared > 48 * 1024) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared)),
              "raise the shared memory of residual_norm_backward");
      }
      kernel<<<static_cast<unsigned>(blocks), 32 * kWarps, shared, context_.stream()>>>(a);
    });
  });
  check_launch("residual_norm_backward");
}

}  // namespace reigen::cuda
