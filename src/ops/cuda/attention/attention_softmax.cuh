// A partial softmax: values weighted by 2^(score - top). Two of them can be joined.
//
// For kernels in which a lane holds eight columns of a head, and the lanes of a head form a group
// that processes one key at a time.
#pragma once

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {

struct Weighted {
  float top;
  float sum;
  Eight values;
};

__device__ inline Weighted nothing_weighted() { return {-INFINITY, 0, zero8()}; }

__device__ inline void join(Weighted& a, const Weighted& b) {
  const float most = fmaxf(a.top, b.top);
  if (most == -INFINITY) return;  // neither has a key
  const float mine = fast_exp2(a.top - most);
  const float other = fast_exp2(b.top - most);
  a.top = most;
  a.sum = a.sum * mine + b.sum * other;
#pragma unroll
  for (int i = 0; i < 8; ++i) a.values.v[i] = a.values.v[i] * mine + b.values.v[i] * other;
}

// Joins the groups of a warp, in a fixed order; every group ends with all.
template <int kLanes>
__device__ inline void join_groups(Weighted& a) {
#pragma unroll
  for (int step = kLanes; step < 32; step *= 2) {
    Weighted b;
    b.top = __shfl_xor_sync(0xFFFFFFFFu, a.top, step);
    b.sum = __shfl_xor_sync(0xFFFFFFFFu, a.sum, step);
#pragma unroll
    for (int i = 0; i < 8; ++i) b.values.v[i] = __shfl_xor_sync(0xFFFFFFFFu, a.values.v[i], step);
    join(a, b);
  }
}

// Sums over the groups of a warp.
template <int kLanes>
__device__ inline void add_groups(Eight& a) {
#pragma unroll
  for (int step = kLanes; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] += __shfl_xor_sync(0xFFFFFFFFu, a.v[i], step);
  }
}

// The product of two rows of a head, in all lanes of the group.
template <int kLanes>
__device__ inline float group_dot(const Eight& a, const Eight& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum = fmaf(a.v[i], b.v[i], sum);
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  return sum;
}

// Adds several keys at once, with one change of scale for all. A masked key has a score of minus
// infinity.
template <int kKeys>
__device__ inline void add_keys(Weighted& a, const float (&scores)[kKeys],
                                const Eight (&values)[kKeys], const float (&factors)[kKeys]) {
  float most = a.top;
#pragma unroll
  for (int n = 0; n < kKeys; ++n) most = fmaxf(most, scores[n]);
  const float base = most == -INFINITY ? 0.0F : most;
  const float shrink = fast_exp2(a.top - base);
  a.top = most;
  a.sum *= shrink;
#pragma unroll
  for (int i = 0; i < 8; ++i) a.values.v[i] *= shrink;
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    const float p = fast_exp2(scores[n] - base);
    a.sum += p;  // dropout acts on the weights, after the softmax
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      a.values.v[i] = fmaf(p * factors[n], values[n].v[i], a.values.v[i]);
    }
  }
}

// Calls f with the lanes of a group as a constant.
template <class F>
void with_lanes(int width, F f) {
  if (width <= 8) return f(std::integral_constant<int, 1>());
  if (width <= 16) return f(std::integral_constant<int, 2>());
  if (width <= 32) return f(std::integral_constant<int, 4>());
  if (width <= 64) return f(std::integral_constant<int, 8>());
  if (width <= 128) return f(std::integral_constant<int, 16>());
  f(std::integral_constant<int, 32>());
}

}  // namespace reigen::cuda
