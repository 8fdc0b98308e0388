// A warp owns 16 rows of one head of one sentence and meets the other side 16 rows at a time, all
// in registers (attention_tiles.cuh). Forward owns queries.
//
// Backward copies a sentence's rows to shared memory, all at once, so that it waits for memory
// once. A warp then owns keys: it makes a tile's weights again from the log sums, adds to its own
// dK and dV, and leaves the gradient of the scores in shared memory too, from which dQ is summed
// once all of the sentence's tiles are there. Sentences too long for that (beyond 90 tokens) are
// done from global memory by tiles of two kinds, one for dQ and one for dK and dV, that each make
// the weights. Either way every output row has one owner and no atomics are needed.
#include "ops/cuda/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cuda/attention_tiles.cuh"

namespace reigen::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kShortBytes = 72 * 1024;  // three blocks share a multiprocessor's 227 KiB
constexpr float kLog2e = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

// Blocks that must fit a multiprocessor. More would make registers spill: forward at 5 takes 65 us
// instead of 47 at base size, backward at 4 takes 152 instead of 139; fewer leave it waiting.
constexpr int forward_blocks(int width) { return width == 128 ? 2 : 4; }
constexpr int backward_blocks(int width) { return width == 128 ? 2 : 3; }

struct Args {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* log_sums;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  int64_t q_stride, k_stride, v_stride, out_stride, log_stride;
  int64_t dout_stride, dq_stride, dk_stride, dv_stride;
  float scale;  // of the scores: 1 / sqrt(width)
  DropArgs drop;
};

// Pointers to one head of one sentence.
template <class T>
struct Head {
  const T* q;
  const T* k;
  const T* v;
  int queries;
  int keys;
  uint32_t head;
  int64_t first_query;

  __device__ Head(const Args& a, const AttentionWork& w, uint32_t which, int width)
      : q(static_cast<const T*>(a.q) + w.first_query * a.q_stride + which * width),
        k(static_cast<const T*>(a.k) + w.first_key * a.k_stride + which * width),
        v(static_cast<const T*>(a.v) + w.first_key * a.v_stride + which * width),
        queries(static_cast<int>(w.queries)),
        keys(static_cast<int>(w.keys)),
        head(which),
        first_query(w.first_query) {}
};

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
__global__ __launch_bounds__(32 * kWarps, forward_blocks(kWidth)) void forward_kernel(
    const Args a, const AttentionWork* list) {
  const AttentionWork w = list[blockIdx.x];
  const Drop drop = drop_of<kDrop>(a.drop);
  const uint32_t tiles = (w.queries + 15) / 16;
  for (uint32_t item = w.first_item + threadIdx.x / 32; item < w.last_item; item += kWarps) {
    const Head<T> head(a, w, w.head + item / tiles, kWidth);
    forward_tile<T, kWidth, kCausal, kDrop>(a, drop, head, static_cast<int>(item % tiles) * 16);
  }
}

// What backward needs of a query beside its rows.
struct QueryNumbers {
  float log_sum;  // base 2
  float dot;      // sum of dO * O, which is the mean of dP under the weights
};

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

// What a block keeps in shared memory, in this order; sizes in bytes, multiples of 16.
struct BlockLayout {
  uint32_t numbers;  // of heads x queries
  uint32_t tiles;
  uint32_t query_rows;  // one matrix of them; there are two, and two of keys
  uint32_t key_rows;

  __host__ __device__ BlockLayout(uint32_t heads, uint32_t queries, uint32_t keys, uint32_t width)
      : numbers((heads * queries + 1) / 2 * 16),
        tiles(heads * ((queries + 15) / 16) * ((keys + 15) / 16) * 512),
        query_rows(heads * queries * width * 2),
        key_rows(heads * keys * width * 2) {}
  __host__ __device__ uint32_t all() const {
    return numbers + tiles + 2 * query_rows + 2 * key_rows;
  }
};

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
__global__ __launch_bounds__(32 * kWarps, backward_blocks(kWidth)) void backward_kernel(
    const Args a, const AttentionWork* list) {
  extern __shared__ uint4 shared[];
  const AttentionWork w = list[blockIdx.x];
  const Drop drop = drop_of<kDrop>(a.drop);
  if (w.last_item == 0) {  // the schedule's mark of a short one
    return short_sentence<T, kWidth, kCausal, kDrop>(a, drop, w, reinterpret_cast<char*>(shared));
  }
  auto* numbers = reinterpret_cast<QueryNumbers*>(shared);
  gather_numbers<T, kWidth>(a, w, numbers);
  __syncthreads();
  long_sentence<T, kWidth, kCausal, kDrop>(a, drop, w, numbers);
}

// Calls f with (type, head width, causal, dropped) as constants.
template <class F>
void with_variant(const Attention& op, F f) {
  const int64_t width = op.q.cols / op.heads;
  auto by_drop = [&](auto t, auto w, auto causal) {
    if (op.dropout.active()) return f(t, w, causal, std::true_type());
    f(t, w, causal, std::false_type());
  };
  auto by_cause = [&](auto t, auto w) {
    if (op.causal) return by_drop(t, w, std::true_type());
    by_drop(t, w, std::false_type());
  };
  auto by_width = [&](auto t) {
    if (width == 32) return by_cause(t, std::integral_constant<int, 32>());
    if (width == 64) return by_cause(t, std::integral_constant<int, 64>());
    require(width == 128, "a head width of 32, 64 or 128 in attention");
    by_cause(t, std::integral_constant<int, 128>());
  };
  if (op.q.dtype == DType::kBF16) return by_width(bf16());
  require(op.q.dtype == DType::kF16, "bf16 or fp16 in attention");
  by_width(__half());
}

Args args_of(const Context& context, const Attention& op) {
  Args a{};
  a.q = op.q.data;
  a.k = op.k.data;
  a.v = op.v.data;
  a.out = op.out.data;
  a.log_sums = data_of<float>(op.log_sums);
  a.q_stride = op.q.stride;
  a.k_stride = op.k.stride;
  a.v_stride = op.v.stride;
  a.out_stride = op.out.stride;
  a.log_stride = op.log_sums.stride;
  a.scale = 1.0F / std::sqrt(static_cast<float>(op.q.cols / op.heads));
  a.drop = drop_args(context, op.dropout);
  return a;
}

void clear_rows_from(const Context& context, Tensor t, uint32_t first) {
  if (t.rows <= first) return;
  const size_t pitch = static_cast<size_t>(t.stride) * size_of(t.dtype);
  check(cudaMemset2DAsync(static_cast<char*>(t.data) + first * pitch, pitch, 0,
                          static_cast<size_t>(t.cols) * size_of(t.dtype),
                          static_cast<size_t>(t.rows - first), context.stream()),
        "clear padded tokens");
}

// Heads that share a block, so that its four warps have equal shares of `tiles` items per head.
template <class F>
uint32_t join_heads(uint32_t tiles, uint32_t heads, F fits) {
  uint32_t joined = 1;
  while (joined < kWarps && heads % (2 * joined) == 0 && joined * tiles % kWarps != 0 &&
         fits(2 * joined)) {
    joined *= 2;
  }
  return joined;
}

// Adds blocks for some heads of a sentence. Up to four items a warp pay for a block's start; a long
// sentence is cut finer, or it would still be running when all others are done.
void divide(std::vector<AttentionWork>& list, AttentionWork work, uint32_t tiles) {
  constexpr uint32_t kLongTiles = 4;
  const uint32_t most = (tiles > kLongTiles ? 2 : 4) * kWarps;
  const uint32_t items = work.heads * tiles;
  for (uint32_t item = 0; item < items; item += most) {
    work.first_item = item;
    work.last_item = std::min(item + most, items);
    list.push_back(work);
  }
}

}  // namespace

AttentionSchedule schedule_attention(std::span<const uint32_t> query_offsets,
                                     std::span<const uint32_t> key_offsets, int heads,
                                     int64_t head_width) {
  AttentionSchedule schedule;
  schedule.query_tokens = query_offsets.back();
  schedule.key_tokens = key_offsets.back();
  std::vector<uint32_t> order(query_offsets.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  auto length = [](std::span<const uint32_t> o, uint32_t s) { return o[s + 1] - o[s]; };
  // Long sentences first, so that none is left running alone at the end.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return length(query_offsets, a) + length(key_offsets, a) >
           length(query_offsets, b) + length(key_offsets, b);
  });
  for (uint32_t s : order) {
    AttentionWork work{};
    work.first_query = query_offsets[s];
    work.first_key = key_offsets[s];
    work.queries = length(query_offsets, s);
    work.keys = length(key_offsets, s);
    if (work.queries == 0 || work.keys == 0) continue;
    const uint32_t query_tiles = (work.queries + 15) / 16;
    const uint32_t key_tiles = (work.keys + 15) / 16;
    const auto all = static_cast<uint32_t>(heads);
    auto bytes = [&](uint32_t joined) {
      return BlockLayout(joined, work.queries, work.keys, static_cast<uint32_t>(head_width)).all();
    };
    work.heads = join_heads(query_tiles, all, [](uint32_t) { return true; });
    for (work.head = 0; work.head < all; work.head += work.heads) {
      divide(schedule.forward, work, query_tiles);
    }
    if (bytes(1) > kShortBytes) {
      work.heads = 1;
      for (work.head = 0; work.head < all; ++work.head) {
        divide(schedule.backward, work, query_tiles + key_tiles);
      }
      const auto numbers = static_cast<uint32_t>(work.queries * sizeof(QueryNumbers));
      schedule.shared_bytes = std::max(schedule.shared_bytes, numbers);
      continue;
    }
    work.heads = join_heads(key_tiles, all, [&](uint32_t n) { return bytes(n) <= kShortBytes; });
    work.first_item = work.last_item = 0;
    for (work.head = 0; work.head < all; work.head += work.heads) schedule.backward.push_back(work);
    schedule.shared_bytes = std::max(schedule.shared_bytes, bytes(work.heads));
  }
  return schedule;
}

AttentionPlan plan_of(const AttentionSchedule& schedule, const AttentionWork* forward,
                      const AttentionWork* backward) {
  AttentionPlan plan;
  plan.forward = forward;
  plan.backward = backward;
  plan.forward_blocks = static_cast<uint32_t>(schedule.forward.size());
  plan.backward_blocks = static_cast<uint32_t>(schedule.backward.size());
  plan.shared_bytes = schedule.shared_bytes;
  plan.query_tokens = schedule.query_tokens;
  plan.key_tokens = schedule.key_tokens;
  return plan;
}

void attention_forward(const Context& context, const Attention& op, const AttentionPlan& plan) {
  const Args a = args_of(context, op);
  clear_rows_from(context, op.out, plan.query_tokens);
  if (plan.forward_blocks == 0) return;
  with_variant(op, [&](auto t, auto width, auto causal, auto drop) {
    forward_kernel<decltype(t), decltype(width)::value, decltype(causal)::value,
                   decltype(drop)::value>
        <<<plan.forward_blocks, 32 * kWarps, 0, context.stream()>>>(a, plan.forward);
  });
  check_launch("attention_forward");
}

void attention_backward(const Context& context, const Attention& op, const AttentionGrad& grad,
                        const AttentionPlan& plan) {
  Args a = args_of(context, op);
  a.dout = grad.dout.data;
  a.dq = grad.dq.data;
  a.dk = grad.dk.data;
  a.dv = grad.dv.data;
  a.dout_stride = grad.dout.stride;
  a.dq_stride = grad.dq.stride;
  a.dk_stride = grad.dk.stride;
  a.dv_stride = grad.dv.stride;
  clear_rows_from(context, grad.dq, plan.query_tokens);
  clear_rows_from(context, grad.dk, plan.key_tokens);
  clear_rows_from(context, grad.dv, plan.key_tokens);
  if (plan.backward_blocks == 0) return;
  require(plan.shared_bytes <= kShortBytes, "sentences of at most 9,216 tokens in attention");
  with_variant(op, [&](auto t, auto width, auto causal, auto drop) {
    using T = decltype(t);
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kCausal = decltype(causal)::value;
    constexpr bool kDrop = decltype(drop)::value;
    const auto kernel = backward_kernel<T, kWidth, kCausal, kDrop>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShortBytes),
          "raise the shared memory of attention_backward");
    kernel<<<plan.backward_blocks, 32 * kWarps, plan.shared_bytes, context.stream()>>>(
        a, plan.backward);
  });
  check_launch("attention_backward");
}

}  // namespace reigen::cuda
