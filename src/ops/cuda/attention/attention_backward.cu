// A sentence's rows are copied to shared memory, all at once, so that a block waits for memory
// once. A warp then owns 16 keys of a head: it recomputes a tile's weights from the log sums, adds
// to its own dK and dV, and writes the gradient of the scores to shared memory too, from which dQ
// is summed once all of the sentence's tiles are there.
//
// A sentence too long for that (beyond 96 tokens) is cut: blocks that own 64 keys iterate over the
// queries 64 at a time (32 on Turing), and blocks that own 64 queries over the keys, each computing
// the weights. In both cases every output row has one owner and no atomics are needed.
#include "ops/cuda/attention/attention_staging.cuh"

namespace reigen::cuda {
namespace {

using Args = AttentionArgs;
constexpr int kWarps = kAttentionWarps;

// Blocks that must fit a multiprocessor; so many also fit its shared memory. A fourth would make
// registers spill: 87 us instead of 81 for 20,013 tokens of base.
constexpr int backward_blocks(int width) { return width == 128 ? 2 : 3; }

// The weight that multiplied the values, and the gradient of the score in place of the score. A
// bias of minus infinity excludes an element.
__device__ inline float backward_weight(float& score, float dp, float bias, bool kept, float scale,
                                        float drop_scale, QueryNumbers numbers) {
  const float p = fast_exp2(fmaf(score, scale, bias) - numbers.log_sum);
  const float factor = kept ? drop_scale : 0.0F;
  score = p * fmaf(dp, factor, -numbers.dot);
  return p * factor;
}

// 16 keys of a head, and the sums of a warp for them.
template <class T, int kWidth>
struct KeyTile {
  uint32_t head;
  int first;  // in the sentence
  int keys;   // of the sentence
  StagedTile<T, kWidth> k, v;
  Sums16<kWidth> dk = zero_sums<kWidth>();
  Sums16<kWidth> dv = zero_sums<kWidth>();

  // Adds the contribution of a staged tile: the sentence's queries from `query` on. The gradients
  // of the scores go to `left` unless it is null. Rows are read each time they are needed: in
  // registers they would take those of a whole block.
  template <bool kCausal, bool kDrop, bool kLeave>
  __device__ void add(const Args& a, const Drop& drop, const Staged<T, kWidth>& s, int which,
                      int tile, int query, uint4* left) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const float scale = a.scale * kLog2e;
    const StagedTile<T, kWidth> q(s.q_at, which * s.query_tiles + tile);
    const StagedTile<T, kWidth> dout(s.dout_at, which * s.query_tiles + tile);
    uint32_t drawn = ~0u;
    if constexpr (kDrop) drawn = draw_keep16(drop, s.tokens(tile)[lane / 2], head, first);
    float ds[2][4] = {};
    float dp[2][4] = {};
    tile_by_tile<T, kWidth>(ds, k, q);
    tile_by_tile<T, kWidth>(dp, v, dout);
    // Keys past the last have weight 0.
    const float bias[2] = {first + g < keys ? 0.0F : -INFINITY,
                           first + g + 8 < keys ? 0.0F : -INFINITY};
    const QueryNumbers* numbers = s.numbers(which, tile);
    float weights[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = 8 * n + 2 * t + e;
        const QueryNumbers mine = numbers[i];
        const uint32_t keep = kDrop ? __shfl_sync(0xFFFFFFFFu, drawn, 2 * i) >> g : ~0u;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int c = 2 * half + e;
          const bool hidden = kCausal && query == first && g + 8 * half > i;
          weights[n][c] = backward_weight(ds[n][c], dp[n][c], hidden ? -INFINITY : bias[half],
                                          (keep >> (8 * half) & 1) != 0, scale, drop.scale, mine);
        }
      }
    }
    // The compiler assumes that this store may change the rows, so it loads them again below.
    const uint4 packed = pack_weights<T>(ds);
    if constexpr (kLeave) *left = turned_weights(packed);
    weights_by_tile<T, kWidth>(dv, pack_weights<T>(weights), dout);
    weights_by_tile<T, kWidth>(dk, packed, q);
  }

  __device__ void store(const Args& a, int64_t first_key) const {
    T* to_k = static_cast<T*>(a.dk) + first_key * a.dk_stride + head * kWidth;
    T* to_v = static_cast<T*>(a.dv) + first_key * a.dv_stride + head * kWidth;
    store_rows<T, kWidth>(dk, {a.scale, a.scale}, to_k, a.dk_stride, first, keys);
    store_rows<T, kWidth>(dv, {1.0F, 1.0F}, to_v, a.dv_stride, first, keys);
  }
};

template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void short_sentence(const Args& a, const Drop& drop, const AttentionWork& w) {
  const auto queries = static_cast<int>(w.queries);
  const auto keys = static_cast<int>(w.keys);
  const Staged<T, kWidth> s(static_cast<int>(w.heads), (queries + 15) / 16, (keys + 15) / 16);
  stage_keys<T, kWidth>(a, w.first_key, keys, w.head, s);
  stage_queries<T, kWidth, kDrop>(a, w.first_query, queries, w.head, s);
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int which = 0, tile = warp; which < s.heads;) {
    if (tile >= s.key_tiles) {
      tile -= s.key_tiles;
      ++which;
      continue;
    }
    KeyTile<T, kWidth> mine{w.head + static_cast<uint32_t>(which),
                            tile * 16,
                            keys,
                            {s.k_at, which * s.key_tiles + tile},
                            {s.v_at, which * s.key_tiles + tile}};
#pragma unroll 1
    for (int query = kCausal ? tile : 0; query < s.query_tiles; ++query) {
      mine.template add<kCausal, kDrop, true>(a, drop, s, which, query, query * 16,
                                              s.left(which, query, tile));
    }
    mine.store(a, w.first_key);
    tile += kWarps;
  }
  __syncthreads();
#pragma unroll 1
  for (int which = 0, tile = warp; which < s.heads;) {
    if (tile >= s.query_tiles) {
      tile -= s.query_tiles;
      ++which;
      continue;
    }
    Sums16<kWidth> dq = zero_sums<kWidth>();
    const int end = kCausal ? min(s.key_tiles, tile + 1) : s.key_tiles;
#pragma unroll 1
    for (int key = 0; key < end; ++key) {
      weights_by_tile<T, kWidth>(dq, *s.left(which, tile, key),
                                 StagedTile<T, kWidth>(s.k_at, which * s.key_tiles + key));
    }
    T* to = static_cast<T*>(a.dq) + w.first_query * a.dq_stride +
            static_cast<int64_t>(w.head + static_cast<uint32_t>(which)) * kWidth;
    store_rows<T, kWidth>(dq, {a.scale, a.scale}, to, a.dq_stride, tile * 16, queries);
    tile += kWarps;
  }
}

// ---- long sentences -----------------------------------------------------------------------------

#ifdef __CUDA_ARCH__
constexpr int kArchitecture = __CUDA_ARCH__ / 10;
#else
constexpr int kArchitecture = kAmpere;  // not used: the host compiler's view of the kernels
#endif
constexpr int kTiles = static_cast<int>(kLongTiles);
constexpr int kOwned = kTiles * 16;
constexpr int kChunkTiles = static_cast<int>(chunk_tiles(kArchitecture));
constexpr int kChunk = kChunkTiles * 16;

// dK and dV of up to 64 keys from `first` on.
template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void long_keys(const Args& a, const Drop& drop, const AttentionWork& w, int first) {
  const auto queries = static_cast<int>(w.queries);
  const auto keys = static_cast<int>(w.keys);
  const Staged<T, kWidth> s(1, kChunkTiles, kTiles);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  stage_keys<T, kWidth>(a, w.first_key + first, min(kOwned, keys - first), w.head, s);
  KeyTile<T, kWidth> mine{w.head, first + warp * 16, keys, {s.k_at, warp}, {s.v_at, warp}};
#pragma unroll 1
  for (int chunk = kCausal ? first : 0; chunk < queries; chunk += kChunk) {
    __syncthreads();  // all readers of the previous chunk are done
    const int count = min(kChunk, queries - chunk);
    stage_queries<T, kWidth, kDrop>(a, w.first_query + chunk, count, w.head, s);
    if (mine.first >= keys) continue;
#pragma unroll 1
    for (int tile = 0; tile * 16 < count; ++tile) {
      const int query = chunk + tile * 16;
      if (kCausal && query < mine.first) continue;
      mine.template add<kCausal, kDrop, false>(a, drop, s, 0, tile, query, nullptr);
    }
  }
  if (mine.first < keys) mine.store(a, w.first_key);
}

// dQ of up to 64 queries from `first` on.
template <class T, int kWidth, bool kCausal, bool kDrop>
__device__ void long_queries(const Args& a, const Drop& drop, const AttentionWork& w, int first) {
  const auto queries = static_cast<int>(w.queries);
  const auto keys = static_cast<int>(w.keys);
  const Staged<T, kWidth> s(1, kTiles, kChunkTiles);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int mine = first + warp * 16;
  const float scale = a.scale * kLog2e;
  const StagedTile<T, kWidth> q(s.q_at, warp);
  const StagedTile<T, kWidth> dout(s.dout_at, warp);
  Sums16<kWidth> dq = zero_sums<kWidth>();
  stage_queries<T, kWidth, kDrop>(a, w.first_query + first, min(kOwned, queries - first), w.head,
                                  s);
  const int end = kCausal ? min(keys, first + kOwned) : keys;
#pragma unroll 1
  for (int chunk = 0; chunk < end; chunk += kChunk) {
    __syncthreads();  // all readers of the previous chunk are done
    stage_keys<T, kWidth>(a, w.first_key + chunk, min(kChunk, keys - chunk), w.head, s);
    staged_ready();
    const QueryNumbers numbers[2] = {s.numbers(0, warp)[g], s.numbers(0, warp)[g + 8]};
#pragma unroll 1
    for (int tile = 0; tile < kChunkTiles; ++tile) {
      const int key = chunk + tile * 16;
      if (key >= end || (kCausal && key > mine)) break;
      const StagedTile<T, kWidth> k(s.k_at, tile);
      uint32_t keep[2] = {~0u, ~0u};
      if constexpr (kDrop) {
        const uint32_t drawn = draw_keep16(drop, s.tokens(warp)[lane / 2], w.head, key);
        keep[0] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g);
        keep[1] = __shfl_sync(0xFFFFFFFFu, drawn, 2 * g + 16);
      }
      float ds[2][4] = {};
      float dp[2][4] = {};
      tile_by_tile<T, kWidth>(ds, q, k);
      tile_by_tile<T, kWidth>(dp, dout, StagedTile<T, kWidth>(s.v_at, tile));
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int bit = 8 * n + 2 * t + c % 2;
          const bool seen = key + bit < keys && (!kCausal || key + bit <= mine + g + 8 * (c / 2));
          backward_weight(ds[n][c], dp[n][c], seen ? 0.0F : -INFINITY,
                          (keep[c / 2] >> bit & 1) != 0, scale, drop.scale, numbers[c / 2]);
        }
      }
      weights_by_tile<T, kWidth>(dq, pack_weights<T>(ds), k);
    }
  }
  T* to =
      static_cast<T*>(a.dq) + w.first_query * a.dq_stride + static_cast<int64_t>(w.head) * kWidth;
  store_rows<T, kWidth>(dq, {a.scale, a.scale}, to, a.dq_stride, mine, queries);
}

template <class T, int kWidth, bool kCausal, bool kDrop>
__global__ __launch_bounds__(32 * kWarps, backward_blocks(kWidth)) void attention_backward_kernel(
    const Args a, const AttentionWork* list) {
  const AttentionWork w = list[blockIdx.x];
  if (w.heads == 0) return clear_backward<T>(a, w);
  const Drop drop = drop_of<kDrop>(a.drop);
  const uint32_t query_tiles = (w.queries + 15) / 16;
  if (w.last_item == 0) return short_sentence<T, kWidth, kCausal, kDrop>(a, drop, w);
  if (w.first_item < query_tiles) {
    return long_queries<T, kWidth, kCausal, kDrop>(a, drop, w, static_cast<int>(w.first_item) * 16);
  }
  long_keys<T, kWidth, kCausal, kDrop>(a, drop, w,
                                       static_cast<int>(w.first_item - query_tiles) * 16);
}

}  // namespace

void tiled_attention_backward(const Context& context, DType dtype, const AttentionArgs& a,
                              const AttentionPlan& plan) {
  with_attention_variant(dtype, a, [&](auto t, auto width, auto causal, auto drop) {
    const auto kernel = attention_backward_kernel<decltype(t), decltype(width)::value,
                                                  decltype(causal)::value, decltype(drop)::value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(attention_shared_bytes(a.width))),
          "raise the shared memory of attention_backward");
    kernel<<<plan.backward_blocks, 32 * kWarps, plan.shared_bytes, context.stream()>>>(
        a, plan.backward);
  });
}

}  // namespace reigen::cuda
