// A sentence's rows are copied to shared memory, all at once, so that a block waits for memory
// once. A warp then owns 16 keys of a head: it makes a tile's weights again from the log sums, adds
// to its own dK and dV, and leaves the gradient of the scores in shared memory too, from which dQ
// is summed once all of the sentence's tiles are there. Sentences too long for that (beyond 90
// tokens) are done from global memory by tiles of two kinds, one for dQ and one for dK and dV, that
// each make the weights. Either way every output row has one owner and no atomics are needed.
#include "ops/cuda/attention_args.cuh"
#include "ops/cuda/attention_tiles.cuh"

namespace reigen::cuda {
namespace {

using Args = AttentionArgs;
constexpr int kWarps = kAttentionWarps;

// Blocks that must fit a multiprocessor. At 4 registers spill more and it takes 152 us instead of
// 139 at base size.
constexpr int backward_blocks(int width) { return width == 128 ? 2 : 3; }

// Turns scores and dP of a 16 x 16 tile into the weights that met the values and the gradient of
// the scores, given for each element whether it is seen and kept.
__device__ inline void backward_weights(float s, float dp, bool seen, bool kept, float scale,
                                        float drop_scale, QueryNumbers numbers, float* dropped,
                                        float* ds) {
  const float p = seen ? fast_exp2(s * scale - numbers.log_sum) : 0.0F;
  const float factor = kept ? drop_scale : 0.0F;
  *dropped = p * factor;
  *ds = seen ? p * (dp * factor - numbers.dot) : 0.0F;
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void query_tile(const Args& a, const Drop& drop, const Head<T>& head, const T* dout,
                           const QueryNumbers* numbers, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const auto queries = load_rows<T, kWidth>(head.q, a.q_stride, first, head.queries);
  const auto douts = load_rows<T, kWidth>(dout, a.dout_stride, first, head.queries);
  const int end = kCausal ? min(head.keys, first + 16) : head.keys;
  const float scale = a.scale * kLog2e;
  const QueryNumbers mine[2] = {numbers[min(first + g, head.queries - 1)],
                                numbers[min(first + g + 8, head.queries - 1)]};
  Sums16<kWidth> dq = zero_sums<kWidth>();
  for (int key = 0; key < end; key += 16) {
    const auto keys = load_rows<T, kWidth>(head.k, a.k_stride, key, head.keys);
    const auto values = load_rows<T, kWidth>(head.v, a.v_stride, key, head.keys);
    fetch_ahead(head.k, a.k_stride, head.v, a.v_stride, key + 16, end);
    uint32_t keep[2] = {~0u, ~0u};
    if constexpr (kDrop) {
      const uint32_t drawn =
          draw_keep16(drop, a.drop.tokens + head.first_query, first, head.queries, head.head, key);
      keep[0] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g);
      keep[1] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g + 16);
    }
    float s[2][4] = {};
    float dp[2][4] = {};
    rows_by_rows<T, kWidth>(s, queries, keys);
    rows_by_rows<T, kWidth>(dp, douts, values);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int bit = 8 * n + 2 * t + c % 2;
        const int j = key + bit;
        const int i = first + g + 8 * (c / 2);
        const bool seen = j < end && (!kCausal || j <= i);
        float dropped = 0;
        backward_weights(s[n][c], dp[n][c], seen, (keep[c / 2] >> bit & 1) != 0, scale,
                         a.drop.scale, mine[c / 2], &dropped, &s[n][c]);
      }
    }
    weights_by_rows<T, kWidth>(dq, pack_weights<T>(s), keys);
  }
  T* to = static_cast<T*>(a.dq) + head.first_query * a.dq_stride + head.head * kWidth;
  store_rows<T, kWidth>(dq, {a.scale, a.scale}, to, a.dq_stride, first, head.queries);
}

// Where key tiles find their rows: in global memory,
template <class T, int kWidth>
struct GlobalRows {
  static constexpr bool kStaged = false;
  const Args& a;
  const Head<T>& head;
  const T* douts;

  __device__ auto q(int first) const {
    return load_rows<T, kWidth>(head.q, a.q_stride, first, head.queries);
  }
  __device__ auto dout(int first) const {
    return load_rows<T, kWidth>(douts, a.dout_stride, first, head.queries);
  }
  __device__ auto k(int first) const {
    return load_rows<T, kWidth>(head.k, a.k_stride, first, head.keys);
  }
  __device__ auto v(int first) const {
    return load_rows<T, kWidth>(head.v, a.v_stride, first, head.keys);
  }
  __device__ void fetch_queries(int first) const {
    fetch_ahead(head.q, a.q_stride, douts, a.dout_stride, first, head.queries);
  }
};

// or in shared memory.
template <class T, int kWidth>
struct StagedRows {
  static constexpr bool kStaged = true;
  const T* qs;
  const T* douts;
  const T* ks;
  const T* vs;
  int queries;
  int keys;

  __device__ auto q(int first) const { return load_staged<T, kWidth>(qs, first, queries); }
  __device__ auto dout(int first) const { return load_staged<T, kWidth>(douts, first, queries); }
  __device__ auto k(int first) const { return load_staged<T, kWidth>(ks, first, keys); }
  __device__ auto v(int first) const { return load_staged<T, kWidth>(vs, first, keys); }
  __device__ void fetch_queries(int) const {}
};

// The same turned around: rows are keys, columns queries. A short sentence's gradients of the
// scores go to `tiles`, as left sides for dQ: [query tile][key tile][lane].
template <class T, int kWidth, bool kCausal, bool kDrop, class Rows>
__device__ void key_tile(const Args& a, const Drop& drop, const Head<T>& head, const Rows& rows,
                         const QueryNumbers* numbers, int64_t first_key, int first, uint4* tiles) {
  constexpr bool kShort = Rows::kStaged;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const auto keys = rows.k(first);
  const auto values = rows.v(first);
  const float scale = a.scale * kLog2e;
  Sums16<kWidth> dk = zero_sums<kWidth>();
  Sums16<kWidth> dv = zero_sums<kWidth>();
  for (int query = kCausal ? first : 0; query < head.queries; query += 16) {
    const auto queries = rows.q(query);
    const auto douts = rows.dout(query);
    rows.fetch_queries(query + 16);
    uint32_t drawn = ~0u;
    if constexpr (kDrop) {
      drawn = draw_keep16(drop, a.drop.tokens + head.first_query, query, head.queries, head.head,
                          first);
    }
    float s[2][4] = {};
    float dp[2][4] = {};
    rows_by_rows<T, kWidth>(s, keys, queries);
    rows_by_rows<T, kWidth>(dp, values, douts);
    float dropped[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = 8 * n + 2 * t + e;
        const int i = query + column;
        const QueryNumbers mine = numbers[min(i, head.queries - 1)];
        const uint32_t keep = kDrop ? __shfl_sync(0xFFFFFFFFu, drawn, 2 * column) : ~0u;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int j = first + g + 8 * half;
          const bool seen = i < head.queries && j < head.keys && (!kCausal || j <= i);
          const int c = 2 * half + e;
          backward_weights(s[n][c], dp[n][c], seen, (keep >> (g + 8 * half) & 1) != 0, scale,
                           a.drop.scale, mine, &dropped[n][c], &s[n][c]);
        }
      }
    }
    weights_by_rows<T, kWidth>(dv, pack_weights<T>(dropped), douts);
    const uint4 packed = pack_weights<T>(s);
    weights_by_rows<T, kWidth>(dk, packed, queries);
    if constexpr (kShort) {
      tiles[(query / 16 * ((head.keys + 15) / 16) + first / 16) * 32 + lane] =
          turned_weights(packed);
    }
  }
  T* to_k = static_cast<T*>(a.dk) + first_key * a.dk_stride + head.head * kWidth;
  T* to_v = static_cast<T*>(a.dv) + first_key * a.dv_stride + head.head * kWidth;
  store_rows<T, kWidth>(dk, {a.scale, a.scale}, to_k, a.dk_stride, first, head.keys);
  store_rows<T, kWidth>(dv, {1.0F, 1.0F}, to_v, a.dv_stride, first, head.keys);
}

// Fills `numbers` for the block's heads and queries: width / 8 lanes to a row.
template <class T, int kWidth>
__device__ void gather_numbers(const Args& a, const AttentionWork& w, QueryNumbers* numbers) {
  constexpr int kLanes = kWidth / 8;
  const int row_lane = static_cast<int>(threadIdx.x) % kLanes;
  const int step = 32 * kWarps / kLanes;
  const int rows = static_cast<int>(w.queries * w.heads);
  const int whole = (rows + step - 1) / step * step;  // all lanes take part in the shuffles
  for (int r = static_cast<int>(threadIdx.x) / kLanes; r < whole; r += step) {
    const int row = min(r, rows - 1);
    const int query = row % static_cast<int>(w.queries);
    const int64_t token = w.first_query + query;
    const int64_t head = w.head + row / w.queries;
    const int64_t column = head * kWidth + row_lane * 8;
    const Eight x = load8(static_cast<const T*>(a.out) + token * a.out_stride + column);
    const Eight y = load8(static_cast<const T*>(a.dout) + token * a.dout_stride + column);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) dot = fmaf(x.v[i], y.v[i], dot);
#pragma unroll
    for (int s = kLanes / 2; s > 0; s /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, s);
    if (row_lane == 0 && r < rows) {
      numbers[r] = {a.log_sums[token * a.log_stride + head] * kLog2e, dot};
    }
  }
}

// A run of tiles of both kinds, of one head of a long sentence.
template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void long_sentence(const Args& a, const Drop& drop, const AttentionWork& w,
                              const QueryNumbers* numbers) {
  const uint32_t query_tiles = (w.queries + 15) / 16;
  const Head<T> head(a, w, w.head, kWidth);
  const T* dout = static_cast<const T*>(a.dout) + w.first_query * a.dout_stride +
                  static_cast<int64_t>(head.head) * kWidth;
  for (uint32_t item = w.first_item + threadIdx.x / 32; item < w.last_item; item += kWarps) {
    if (item < query_tiles) {
      query_tile<T, kWidth, kCausal, kDrop>(a, drop, head, dout, numbers,
                                            static_cast<int>(item) * 16);
    } else {
      key_tile<T, kWidth, kCausal, kDrop>(a, drop, head, GlobalRows<T, kWidth>{a, head, dout},
                                          numbers, w.first_key,
                                          static_cast<int>(item - query_tiles) * 16, nullptr);
    }
  }
}

// dQ of 16 queries from the gradients of the scores that key tiles left.
template <class T, int kWidth, bool kCausal>
__device__ void query_sums(const Args& a, const Head<T>& head, const StagedRows<T, kWidth>& rows,
                           const uint4* tiles, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key_tiles = (head.keys + 15) / 16;
  const int end = kCausal ? min(head.keys, first + 16) : head.keys;
  Sums16<kWidth> dq = zero_sums<kWidth>();
  for (int key = 0; key < end; key += 16) {
    weights_by_rows<T, kWidth>(dq, tiles[(first / 16 * key_tiles + key / 16) * 32 + lane],
                               rows.k(key));
  }
  T* to = static_cast<T*>(a.dq) + head.first_query * a.dq_stride + head.head * kWidth;
  store_rows<T, kWidth>(dq, {a.scale, a.scale}, to, a.dq_stride, first, head.queries);
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void short_sentence(const Args& a, const Drop& drop, const AttentionWork& w,
                               char* shared) {
  const BlockLayout layout(w.heads, w.queries, w.keys, kWidth);
  auto* numbers = reinterpret_cast<QueryNumbers*>(shared);
  auto* tiles = reinterpret_cast<uint4*>(shared + layout.numbers);
  T* qs = reinterpret_cast<T*>(shared + layout.numbers + layout.tiles);
  T* douts = qs + layout.query_rows / sizeof(T);
  T* ks = douts + layout.query_rows / sizeof(T);
  T* vs = ks + layout.key_rows / sizeof(T);
  const int queries = static_cast<int>(w.queries);
  const int keys = static_cast<int>(w.keys);
  const int heads = static_cast<int>(w.heads);
  const Head<T> first(a, w, w.head, kWidth);
  const T* dout = static_cast<const T*>(a.dout) + w.first_query * a.dout_stride +
                  static_cast<int64_t>(w.head) * kWidth;
  stage_rows<T, kWidth>(first.q, a.q_stride, queries, heads, qs);
  stage_rows<T, kWidth>(dout, a.dout_stride, queries, heads, douts);
  stage_rows<T, kWidth>(first.k, a.k_stride, keys, heads, ks);
  stage_rows<T, kWidth>(first.v, a.v_stride, keys, heads, vs);
  gather_numbers<T, kWidth>(a, w, numbers);
  staged_ready();
  const uint32_t query_tiles = (w.queries + 15) / 16;
  const uint32_t key_tiles = (w.keys + 15) / 16;
  auto rows_of = [&](uint32_t which) {
    const auto h = static_cast<int>(which) * kWidth;
    return StagedRows<T, kWidth>{
        qs + h * queries, douts + h * queries, ks + h * keys, vs + h * keys, queries, keys};
  };
  const uint32_t head_tiles = query_tiles * key_tiles * 32;
  for (uint32_t item = threadIdx.x / 32; item < w.heads * key_tiles; item += kWarps) {
    const uint32_t which = item / key_tiles;
    const Head<T> head(a, w, w.head + which, kWidth);
    key_tile<T, kWidth, kCausal, kDrop>(a, drop, head, rows_of(which), numbers + which * w.queries,
                                        w.first_key, static_cast<int>(item % key_tiles) * 16,
                                        tiles + which * head_tiles);
  }
  __syncthreads();
  for (uint32_t item = threadIdx.x / 32; item < w.heads * query_tiles; item += kWarps) {
    const uint32_t which = item / query_tiles;
    const Head<T> head(a, w, w.head + which, kWidth);
    query_sums<T, kWidth, kCausal>(a, head, rows_of(which), tiles + which * head_tiles,
                                   static_cast<int>(item % query_tiles) * 16);
  }
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__global__ __launch_bounds__(32 * kWarps, backward_blocks(kWidth)) void attention_backward_kernel(
    const Args a, const AttentionWork* list) {
  extern __shared__ uint4 shared[];
  const AttentionWork w = list[blockIdx.x];
  if (w.heads == 0) return;  // fills up a list
  const Drop drop = drop_of<kDrop>(a.drop);
  if (w.last_item == 0) {  // the schedule's mark of a short one
    return short_sentence<T, kWidth, kCausal, kDrop>(a, drop, w, reinterpret_cast<char*>(shared));
  }
  auto* numbers = reinterpret_cast<QueryNumbers*>(shared);
  gather_numbers<T, kWidth>(a, w, numbers);
  __syncthreads();
  long_sentence<T, kWidth, kCausal, kDrop>(a, drop, w, numbers);
}

}  // namespace

void tiled_attention_backward(const Context& context, DType dtype, const AttentionArgs& a,
                              const AttentionPlan& plan) {
  require(plan.shared_bytes <= kAttentionSharedBytes,
          "sentences of at most 9,216 tokens in attention");
  with_attention_variant(dtype, a, [&](auto t, auto width, auto causal, auto drop) {
    const auto kernel = attention_backward_kernel<decltype(t), decltype(width)::value,
                                                  decltype(causal)::value, decltype(drop)::value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kAttentionSharedBytes),
          "raise the shared memory of attention_backward");
    kernel<<<plan.backward_blocks, 32 * kWarps, plan.shared_bytes, context.stream()>>>(
        a, plan.backward);
  });
}

}  // namespace reigen::cuda
