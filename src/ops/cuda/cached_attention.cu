// A key's slice of a head is shared out to as many lanes as it has eights, so a warp meets 32
// divided by that many keys at once, each group of lanes with a softmax of its own; groups, and the
// warps of a block, are joined at the end in a fixed order. The lists say where keys lie, so the
// addresses of several keys are fetched before the first is used.
#include "ops/cuda/cached_attention.h"

#include <cmath>

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kAhead = 4;  // keys of a group on their way at once
constexpr float kLog2e = 1.4426950408889634F;

struct Args {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  const uint32_t* picks;
  const uint32_t* begin;
  const uint32_t* count;
  int64_t q_stride, k_stride, v_stride, out_stride;
  int rows, heads, width;
  float scale;  // of the scores, base 2
};

// Values weighted by 2^(score - top).
struct Weighted {
  float top;
  float sum;
  Eight values;
};

__device__ inline void join(Weighted& a, float top, float sum, const Eight& values) {
  const float most = fmaxf(a.top, top);
  if (most == -INFINITY) return;  // neither saw a key
  const float mine = fast_exp2(a.top - most);
  const float other = fast_exp2(top - most);
  a.top = most;
  a.sum = a.sum * mine + sum * other;
#pragma unroll
  for (int i = 0; i < 8; ++i) a.values.v[i] = a.values.v[i] * mine + values.v[i] * other;
}

// The keys of one row and head that this warp takes: chunks `part`, `part` + kParts, ...
template <class T, int kLanes, int kParts>
__device__ Weighted attend(const Args& a, int row, int column, bool inside, int part) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kChunk = kGroups * kAhead;
  const int group = static_cast<int>(threadIdx.x) % 32 / kLanes;
  const uint32_t* picks = a.picks + a.begin[row];
  const int count = static_cast<int>(a.count[row]);
  Eight q = zero8();
  if (inside) q = load8(static_cast<const T*>(a.q) + row * a.q_stride + column);
#pragma unroll
  for (int i = 0; i < 8; ++i) q.v[i] *= a.scale;
  Weighted out{-INFINITY, 0, zero8()};
  for (int first = part * kChunk; first < count; first += kParts * kChunk) {
    Raw8<T> k[kAhead], v[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int64_t pick = picks[min(first + n * kGroups + group, count - 1)];
      k[n] = load_raw(static_cast<const T*>(a.k) + pick * a.k_stride + column);
      v[n] = load_raw(static_cast<const T*>(a.v) + pick * a.v_stride + column);
    }
    float s[kAhead];
    float most = out.top;
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const Eight key = unpack<T>(k[n]);
      s[n] = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) s[n] = fmaf(q.v[i], key.v[i], s[n]);
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) {
        s[n] += __shfl_xor_sync(0xFFFFFFFFu, s[n], step);
      }
      if (first + n * kGroups + group >= count) s[n] = -INFINITY;
      most = fmaxf(most, s[n]);
    }
    const float base = most == -INFINITY ? 0.0F : most;
    const float shrink = fast_exp2(out.top - base);
    out.top = most;
    out.sum *= shrink;
#pragma unroll
    for (int i = 0; i < 8; ++i) out.values.v[i] *= shrink;
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const float p = fast_exp2(s[n] - base);
      const Eight value = unpack<T>(v[n]);
      out.sum += p;
#pragma unroll
      for (int i = 0; i < 8; ++i) out.values.v[i] = fmaf(p, value.v[i], out.values.v[i]);
    }
  }
#pragma unroll
  for (int step = kLanes; step < 32; step *= 2) {
    const float top = __shfl_xor_sync(0xFFFFFFFFu, out.top, step);
    const float sum = __shfl_xor_sync(0xFFFFFFFFu, out.sum, step);
    Eight values;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values.v[i] = __shfl_xor_sync(0xFFFFFFFFu, out.values.v[i], step);
    }
    join(out, top, sum, values);
  }
  return out;
}

// kParts warps work on one row and head.
template <class T, int kLanes, int kParts>
__global__ __launch_bounds__(32 * kWarps) void cached_kernel(const Args a) {
  __shared__ Weighted parts[kWarps][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int item = static_cast<int>(blockIdx.x) * (kWarps / kParts) + warp / kParts;
  if (item >= a.rows * a.heads) return;  // with several parts, all of a block or none
  const int row = item / a.heads;
  const bool inside = lane % kLanes * 8 < a.width;
  const int column = item % a.heads * a.width + (inside ? lane % kLanes * 8 : 0);
  Weighted all = attend<T, kLanes, kParts>(a, row, column, inside, warp % kParts);
  if constexpr (kParts > 1) {
    if (lane < kLanes) parts[warp][lane] = all;
    __syncthreads();
    if (warp != 0) return;
    for (int w = 1; w < kWarps; ++w) {
      const Weighted other = parts[w][lane % kLanes];
      join(all, other.top, other.sum, other.values);
    }
  }
  if (lane >= kLanes || !inside) return;
  const float factor = all.sum == 0 ? 0.0F : 1.0F / all.sum;
#pragma unroll
  for (int i = 0; i < 8; ++i) all.values.v[i] *= factor;
  store8(static_cast<T*>(a.out) + row * a.out_stride + column, all.values);
}

template <class T, int kLanes>
void launch(const Context& context, const Args& a) {
  const int items = a.rows * a.heads;
  // A small beam leaves multiprocessors idle unless several warps share a row and head.
  const bool split = items < 16 * context.multiprocessors();
  const auto blocks = static_cast<unsigned>(split ? items : (items + kWarps - 1) / kWarps);
  const auto kernel = split ? cached_kernel<T, kLanes, kWarps> : cached_kernel<T, kLanes, 1>;
  kernel<<<blocks, 32 * kWarps, 0, context.stream()>>>(a);
}

}  // namespace

void cached_attention(const Context& context, const CachedAttention& op) {
  if (op.q.rows == 0) return;
  const int64_t width = op.q.cols / op.heads;
  require(width % 8 == 0 && width <= 256, "a head width that is a multiple of 8, at most 256");
  require(op.k.dtype == op.q.dtype && op.v.dtype == op.q.dtype && op.out.dtype == op.q.dtype,
          "one type in cached_attention");
  Args a{};
  a.q = op.q.data;
  a.k = op.k.data;
  a.v = op.v.data;
  a.out = op.out.data;
  a.picks = op.keys.picks.data();
  a.begin = op.keys.begin.data();
  a.count = op.keys.count.data();
  a.q_stride = op.q.stride;
  a.k_stride = op.k.stride;
  a.v_stride = op.v.stride;
  a.out_stride = op.out.stride;
  a.rows = static_cast<int>(op.q.rows);
  a.heads = op.heads;
  a.width = static_cast<int>(width);
  a.scale = kLog2e / std::sqrt(static_cast<float>(width));
  with_type(op.q.dtype, [&](auto t) {
    using T = decltype(t);
    if (width <= 8) return launch<T, 1>(context, a);
    if (width <= 16) return launch<T, 2>(context, a);
    if (width <= 32) return launch<T, 4>(context, a);
    if (width <= 64) return launch<T, 8>(context, a);
    if (width <= 128) return launch<T, 16>(context, a);
    launch<T, 32>(context, a);
  });
  check_launch("cached_attention");
}

}  // namespace reigen::cuda
