// Attention without tensor cores, for fp32 and for head widths without tensor-core kernels.
//
// A lane holds eight columns of a head, and the lanes of a head form a group
// (attention_softmax.cuh). A warp owns a few queries, for out and dQ, or a few keys, for dK and dV,
// and its groups divide the other side, each row of which is read once for all of the few. Groups
// are added up at the end in a fixed order, so every output row has one owner.
#include "ops/cuda/attention/attention_args.cuh"
#include "ops/cuda/attention/attention_softmax.cuh"

namespace reigen::cuda {
namespace {

using Args = AttentionArgs;
constexpr int kWarps = kAttentionWarps;
constexpr int kQueries = 4;  // that a warp owns at once: a quarter of a tile of 16
constexpr int kKeys = 4;

// A lane's place in its group.
template <int kLanes>
struct Place {
  int group;
  int column;  // of the head
  bool inside;

  __device__ explicit Place(const Args& a) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    group = lane / kLanes;
    column = lane % kLanes * 8;
    inside = column < a.width;
    if (!inside) column = 0;
  }
  template <class T>
  __device__ Eight load(const T* base, int64_t stride, int row) const {
    return inside ? load8(base + row * stride + column) : zero8();
  }
};

// Bits of 32 keys from `first` (a multiple of 32) for each of kQueries queries, all lanes the same.
__device__ inline void draw_keys(const Drop& drop, const uint64_t* tokens, int query, int queries,
                                 uint32_t head, int first, uint32_t (&keep)[kQueries]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint64_t token = tokens[min(query + lane / 4 % kQueries, queries - 1)];
  const uint32_t block = (head << 16) + static_cast<uint32_t>(first / 8 + lane % 4);
  uint32_t bits = keep_bits(drop, token, block) << (8 * (lane % 4));
  bits |= __shfl_xor_sync(0xFFFFFFFFu, bits, 1);
  bits |= __shfl_xor_sync(0xFFFFFFFFu, bits, 2);
#pragma unroll
  for (int n = 0; n < kQueries; ++n) keep[n] = __shfl_sync(0xFFFFFFFFu, bits, 4 * n);
}

__device__ inline void scale8(Eight& e, float factor) {
#pragma unroll
  for (int i = 0; i < 8; ++i) e.v[i] *= factor;
}
__device__ inline void add8(Eight& to, float factor, const Eight& e) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to.v[i] = fmaf(factor, e.v[i], to.v[i]);
}

template <class T, int kLanes>
__device__ void forward_queries(const Args& a, const Drop& drop, const Head<T>& head, int first) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kAhead = kLanes >= 2 ? 2 : 1;  // keys of a group at once
  const Place<kLanes> place(a);
  Eight q[kQueries];
  Weighted sums[kQueries];
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    q[n] = place.load(head.q, a.q_stride, min(first + n, head.queries - 1));
    scale8(q[n], a.scale * kLog2e);
    sums[n] = nothing_weighted();
  }
  const int end = a.causal ? min(head.keys, first + kQueries) : head.keys;
  for (int chunk = 0; chunk < end; chunk += 32) {
    uint32_t keep[kQueries] = {~0u, ~0u, ~0u, ~0u};
    if (drop.threshold > 0) {
      draw_keys(drop, a.drop.tokens + head.first_query, first, head.queries, head.head, chunk,
                keep);
    }
    const int last = min(32, end - chunk);
    for (int at = 0; at < last; at += kAhead * kGroups) {
      Eight k[kAhead], v[kAhead];
      int bit[kAhead];
#pragma unroll
      for (int m = 0; m < kAhead; ++m) {
        bit[m] = at + m * kGroups + place.group;
        const int row = min(chunk + bit[m], head.keys - 1);
        k[m] = place.load(head.k, a.k_stride, row);
        v[m] = place.load(head.v, a.v_stride, row);
      }
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        float scores[kAhead];
        float factors[kAhead];
#pragma unroll
        for (int m = 0; m < kAhead; ++m) {
          scores[m] = group_dot<kLanes>(q[n], k[m]);
          const int key = chunk + bit[m];
          if (bit[m] >= last || (a.causal && key > first + n)) scores[m] = -INFINITY;
          factors[m] = (keep[n] >> bit[m] & 1) != 0 ? 1.0F : 0.0F;
        }
        add_keys(sums[n], scores, v, factors);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    join_groups<kLanes>(sums[n]);
    if (first + n >= head.queries || place.group != 0) continue;
    const int64_t token = head.first_query + first + n;
    if (place.inside) {
      scale8(sums[n].values, drop.scale / sums[n].sum);
      store8(static_cast<T*>(a.out) + token * a.out_stride + head.head * a.width + place.column,
             sums[n].values);
    }
    if (threadIdx.x % 32 == 0) {
      a.log_sums[token * a.log_stride + head.head] = kLn2 * (sums[n].top + log2f(sums[n].sum));
    }
  }
}

template <class T, int kLanes>
__global__ __launch_bounds__(32 * kWarps) void lanes_forward_kernel(const Args a,
                                                                    const AttentionWork* list) {
  const AttentionWork w = list[blockIdx.x];
  if (w.heads == 0) return clear_forward<T>(a, w);
  const Drop drop = drop_of(a.drop);
  const uint32_t tiles = (w.queries + 15) / 16;
  for (uint32_t item = w.first_item + threadIdx.x / 32; item < w.last_item; item += kWarps) {
    const Head<T> head(a, w, w.head + item / tiles, a.width);
    const int first = static_cast<int>(item % tiles) * 16;
    for (int query = first; query < min(first + 16, head.queries); query += kQueries) {
      forward_queries<T, kLanes>(a, drop, head, query);
    }
  }
}

// dots[token, head] = sum of dO * O, which is the mean of dP under the weights.
template <class T, int kLanes>
__global__ __launch_bounds__(32 * kWarps) void dots_kernel(const Args a, int tokens) {
  constexpr int kGroups = 32 / kLanes;
  const Place<kLanes> place(a);
  const int warp = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int64_t index = int64_t{warp} * kGroups + place.group;
  const int64_t all = int64_t{tokens} * a.heads;
  const int64_t token = min(index, all - 1) / a.heads;
  const int64_t column = min(index, all - 1) % a.heads * a.width;
  const Eight x =
      place.load(static_cast<const T*>(a.out) + column, a.out_stride, static_cast<int>(token));
  const Eight y =
      place.load(static_cast<const T*>(a.dout) + column, a.dout_stride, static_cast<int>(token));
  const float dot = group_dot<kLanes>(x, y);
  if (index < all && static_cast<int>(threadIdx.x) % kLanes == 0) a.dots[index] = dot;
}

// A query's numbers: the log of its sum, base 2, and its dot.
__device__ inline QueryNumbers numbers_of(const Args& a, int64_t token, uint32_t head) {
  return {a.log_sums[token * a.log_stride + head] * kLog2e, a.dots[token * a.heads + head]};
}

// dQ of a few queries.
template <class T, int kLanes>
__device__ void backward_queries(const Args& a, const Drop& drop, const Head<T>& head,
                                 const T* dout, int first) {
  constexpr int kGroups = 32 / kLanes;
  const Place<kLanes> place(a);
  Eight q[kQueries], d[kQueries], sums[kQueries];
  QueryNumbers numbers[kQueries];
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    const int row = min(first + n, head.queries - 1);
    q[n] = place.load(head.q, a.q_stride, row);
    d[n] = place.load(dout, a.dout_stride, row);
    scale8(q[n], a.scale * kLog2e);
    numbers[n] = numbers_of(a, head.first_query + row, head.head);
    sums[n] = zero8();
  }
  const int end = a.causal ? min(head.keys, first + kQueries) : head.keys;
  for (int chunk = 0; chunk < end; chunk += 32) {
    uint32_t keep[kQueries] = {~0u, ~0u, ~0u, ~0u};
    if (drop.threshold > 0) {
      draw_keys(drop, a.drop.tokens + head.first_query, first, head.queries, head.head, chunk,
                keep);
    }
    const int last = min(32, end - chunk);
    for (int at = 0; at < last; at += kGroups) {
      const int bit = at + place.group;
      const int key = chunk + bit;
      const Eight k = place.load(head.k, a.k_stride, min(key, head.keys - 1));
      const Eight v = place.load(head.v, a.v_stride, min(key, head.keys - 1));
#pragma unroll
      for (int n = 0; n < kQueries; ++n) {
        const float s = group_dot<kLanes>(q[n], k);
        const float dp = group_dot<kLanes>(d[n], v);
        const bool seen = bit < last && (!a.causal || key <= first + n);
        const float p = seen ? fast_exp2(s - numbers[n].log_sum) : 0.0F;
        const float factor = (keep[n] >> bit & 1) != 0 ? drop.scale : 0.0F;
        add8(sums[n], seen ? p * (dp * factor - numbers[n].dot) : 0.0F, k);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kQueries; ++n) {
    add_groups<kLanes>(sums[n]);
    if (first + n >= head.queries || place.group != 0 || !place.inside) continue;
    scale8(sums[n], a.scale);
    store8(static_cast<T*>(a.dq) + (head.first_query + first + n) * a.dq_stride +
               head.head * a.width + place.column,
           sums[n]);
  }
}

// dK and dV of a few keys: `first` is a multiple of kKeys, so that they share a Philox counter.
template <class T, int kLanes>
__device__ void backward_keys(const Args& a, const Drop& drop, const Head<T>& head, const T* dout,
                              int64_t first_key, int first) {
  constexpr int kGroups = 32 / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Place<kLanes> place(a);
  Eight k[kKeys], v[kKeys], dk[kKeys], dv[kKeys];
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    k[n] = place.load(head.k, a.k_stride, min(first + n, head.keys - 1));
    v[n] = place.load(head.v, a.v_stride, min(first + n, head.keys - 1));
    scale8(k[n], a.scale * kLog2e);
    dk[n] = dv[n] = zero8();
  }
  const int begin = a.causal ? first : 0;
  for (int chunk = begin; chunk < head.queries; chunk += 32) {
    uint32_t drawn = ~0u;
    if (drop.threshold > 0) {
      const uint64_t* tokens = a.drop.tokens + head.first_query;
      const uint32_t block = (head.head << 16) + static_cast<uint32_t>(first / 8);
      drawn = keep_bits(drop, tokens[min(chunk + lane, head.queries - 1)], block) >> (first % 8);
    }
    const int last = min(32, head.queries - chunk);
    for (int at = 0; at < last; at += kGroups) {
      const int query = min(chunk + at + place.group, head.queries - 1);
      const Eight q = place.load(head.q, a.q_stride, query);
      const Eight d = place.load(dout, a.dout_stride, query);
      const QueryNumbers numbers = numbers_of(a, head.first_query + query, head.head);
      const uint32_t keep = __shfl_sync(0xFFFFFFFFu, drawn, min(at + place.group, 31));
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        const float s = group_dot<kLanes>(q, k[n]);
        const float dp = group_dot<kLanes>(d, v[n]);
        const bool seen = at + place.group < last && (!a.causal || first + n <= query);
        const float p = seen ? fast_exp2(s - numbers.log_sum) : 0.0F;
        const float factor = (keep >> n & 1) != 0 ? drop.scale : 0.0F;
        add8(dv[n], p * factor, d);
        add8(dk[n], seen ? p * (dp * factor - numbers.dot) : 0.0F, q);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    add_groups<kLanes>(dk[n]);
    add_groups<kLanes>(dv[n]);
    if (first + n >= head.keys || place.group != 0 || !place.inside) continue;
    scale8(dk[n], a.scale);
    const int64_t row = first_key + first + n;
    const int64_t column = head.head * a.width + place.column;
    store8(static_cast<T*>(a.dk) + row * a.dk_stride + column, dk[n]);
    store8(static_cast<T*>(a.dv) + row * a.dv_stride + column, dv[n]);
  }
}

// Items are tiles of 16 queries, then tiles of 16 keys.
template <class T, int kLanes>
__global__ __launch_bounds__(32 * kWarps) void lanes_backward_kernel(const Args a,
                                                                     const AttentionWork* list) {
  const AttentionWork w = list[blockIdx.x];
  if (w.heads == 0) return clear_backward<T>(a, w);
  const Drop drop = drop_of(a.drop);
  const uint32_t query_tiles = (w.queries + 15) / 16;
  const Head<T> head(a, w, w.head, a.width);
  const T* dout = static_cast<const T*>(a.dout) + w.first_query * a.dout_stride +
                  static_cast<int64_t>(w.head) * a.width;
  for (uint32_t item = w.first_item + threadIdx.x / 32; item < w.last_item; item += kWarps) {
    if (item < query_tiles) {
      const int first = static_cast<int>(item) * 16;
      for (int query = first; query < min(first + 16, head.queries); query += kQueries) {
        backward_queries<T, kLanes>(a, drop, head, dout, query);
      }
    } else {
      const int first = static_cast<int>(item - query_tiles) * 16;
      for (int key = first; key < min(first + 16, head.keys); key += kKeys) {
        backward_keys<T, kLanes>(a, drop, head, dout, w.first_key, key);
      }
    }
  }
}

}  // namespace

void lanes_attention_forward(const Context& context, DType dtype, const AttentionArgs& a,
                             const AttentionPlan& plan) {
  with_type(dtype, [&](auto t) {
    with_lanes(a.width, [&](auto lanes) {
      lanes_forward_kernel<decltype(t), decltype(lanes)::value>
          <<<plan.forward_blocks, 32 * kWarps, 0, context.stream()>>>(a, plan.forward);
    });
  });
}

void lanes_attention_backward(const Context& context, DType dtype, const AttentionArgs& args,
                              const AttentionPlan& plan) {
  AttentionArgs a = args;
  const int64_t rows = int64_t{plan.query_tokens} * a.heads;
  a.dots = static_cast<float*>(context.scratch(sizeof(float) * static_cast<size_t>(rows)));
  with_type(dtype, [&](auto t) {
    with_lanes(a.width, [&](auto lanes) {
      using T = decltype(t);
      constexpr int kLanes = decltype(lanes)::value;
      const int64_t per_block = kWarps * (32 / kLanes);
      dots_kernel<T, kLanes>
          <<<static_cast<unsigned>((rows + per_block - 1) / per_block), 32 * kWarps, 0,
             context.stream()>>>(a, static_cast<int>(plan.query_tokens));
      check_launch("attention_backward");
      lanes_backward_kernel<T, kLanes>
          <<<plan.backward_blocks, 32 * kWarps, 0, context.stream()>>>(a, plan.backward);
    });
  });
}

}  // namespace reigen::cuda
