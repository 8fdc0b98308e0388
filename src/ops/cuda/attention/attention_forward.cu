// A warp owns 16 queries of one head of one sentence and iterates over the keys 16 at a time, all
// in registers (attention_tiles.cuh).
#include "ops/cuda/attention/attention_args.cuh"
#include "ops/cuda/attention/attention_tiles.cuh"

namespace reigen::cuda {
namespace {

using Args = AttentionArgs;
constexpr int kWarps = kAttentionWarps;

// Blocks that must fit a multiprocessor. More would make registers spill: at 5 it takes 65 us
// instead of 47 at base size; fewer do not hide the latency of memory.
constexpr int forward_blocks(int width) { return width == 128 ? 2 : 4; }

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void forward_tile(const Args& a, const Drop& drop, const Head<T>& head, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const auto queries = load_rows<T, kWidth>(head.q, a.q_stride, first, head.queries);
  const int end = kCausal ? min(head.keys, first + 16) : head.keys;
  const float scale = a.scale * kLog2e;
  Sums16<kWidth> out = zero_sums<kWidth>();
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  const uint64_t token =
      kDrop ? token_of(a.drop.tokens + head.first_query, first, head.queries) : 0;
  for (int key = 0; key < end; key += 16) {
    const auto keys = load_rows<T, kWidth>(head.k, a.k_stride, key, head.keys);
    const auto values = load_rows<T, kWidth>(head.v, a.v_stride, key, head.keys);
    fetch_ahead(head.k, a.k_stride, head.v, a.v_stride, key + 16, end);
    uint32_t keep[2] = {~0u, ~0u};
    if constexpr (kDrop) {
      const uint32_t drawn = draw_keep16(drop, token, head.head, key);
      keep[0] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g);
      keep[1] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g + 16);
    }
    float s[2][4] = {};
    rows_by_rows<T, kWidth>(s, queries, keys);
    float most[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int j = key + 8 * n + 2 * t + c % 2;
        const int i = first + g + 8 * (c / 2);
        const bool seen = j < end && (!kCausal || j <= i);
        s[n][c] = seen ? s[n][c] * scale : -INFINITY;
        most[c / 2] = fmaxf(most[c / 2], s[n][c]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = quad_max(most[half]);
      const float shrink = fast_exp2(top[half] - most[half]);
      top[half] = most[half];
      sum[half] *= shrink;
#pragma unroll
      for (int i = 0; i < kWidth / 32; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          out.c[i][j][2 * half] *= shrink;
          out.c[i][j][2 * half + 1] *= shrink;
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float p = fast_exp2(s[n][c] - top[c / 2]);
        sum[c / 2] += p;  // dropout acts on the weights, after the softmax
        s[n][c] = kDrop && (keep[c / 2] >> (8 * n + 2 * t + c % 2) & 1) == 0 ? 0.0F : p;
      }
    }
    weights_by_rows<T, kWidth>(out, pack_weights<T>(s), values);
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = quad_sum(sum[half]);
    factor[half] = a.drop.scale / total;
    const int row = first + g + 8 * half;
    if (t == 0 && row < head.queries) {
      a.log_sums[(head.first_query + row) * a.log_stride + head.head] =
          kLn2 * (top[half] + log2f(total));
    }
  }
  T* to = static_cast<T*>(a.out) + head.first_query * a.out_stride + head.head * kWidth;
  store_rows<T, kWidth>(out, factor, to, a.out_stride, first, head.queries);
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__global__ __launch_bounds__(32 * kWarps, forward_blocks(kWidth)) void attention_forward_kernel(
    const Args a, const AttentionWork* list) {
  const AttentionWork w = list[blockIdx.x];
  if (w.heads == 0) return clear_forward<T>(a, w);
  const Drop drop = drop_of<kDrop>(a.drop);
  const uint32_t tiles = (w.queries + 15) / 16;
  for (uint32_t item = w.first_item + threadIdx.x / 32; item < w.last_item; item += kWarps) {
    const Head<T> head(a, w, w.head + item / tiles, kWidth);
    forward_tile<T, kWidth, kCausal, kDrop>(a, drop, head, static_cast<int>(item % tiles) * 16);
  }
}

}  // namespace

void tiled_attention_forward(const Context& context, DType dtype, const AttentionArgs& a,
                             const AttentionPlan& plan) {
  with_attention_variant(dtype, a, [&](auto t, auto width, auto causal, auto drop) {
    attention_forward_kernel<decltype(t), decltype(width)::value, decltype(causal)::value,
                             decltype(drop)::value>
        <<<plan.forward_blocks, 32 * kWarps, 0, context.stream()>>>(a, plan.forward);
  });
}

}  // namespace reigen::cuda
