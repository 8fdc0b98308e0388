// Rows of a sentence in shared memory, as backward reads them: whole tiles of 16 rows, zeros past
// the end, so that reads need no bounds check and one address serves a whole tile.
#pragma once

#include "ops/cuda/attention/attention_args.cuh"
#include "ops/cuda/attention/attention_tiles.cuh"

namespace reigen::cuda {

extern __shared__ __align__(256) char block_memory[];

// Offsets in a block's shared memory, for its first head, in bytes.
template <class T, int kWidth>
struct Staged {
  static constexpr int kRow = kWidth * static_cast<int>(sizeof(T));

  int heads;
  int query_tiles, key_tiles;                          // of a head
  int tokens_at, q_at, dout_at, k_at, v_at, tiles_at;  // numbers are at 0

  __device__ Staged(int head_count, int query_tile_count, int key_tile_count)
      : heads(head_count), query_tiles(query_tile_count), key_tiles(key_tile_count) {
    const BlockLayout layout(static_cast<uint32_t>(heads), static_cast<uint32_t>(query_tiles),
                             static_cast<uint32_t>(key_tiles), kWidth);
    tokens_at = static_cast<int>(layout.numbers);
    q_at = tokens_at + static_cast<int>(layout.tokens);
    dout_at = q_at + static_cast<int>(layout.query_rows);
    k_at = dout_at + static_cast<int>(layout.query_rows);
    v_at = k_at + static_cast<int>(layout.key_rows);
    tiles_at = v_at + static_cast<int>(layout.key_rows);
  }

  // Numbers and tokens from a tile of queries on; numbers of head `which`.
  __device__ QueryNumbers* numbers(int which, int query_tile) const {
    return reinterpret_cast<QueryNumbers*>(block_memory) + (which * query_tiles + query_tile) * 16;
  }
  __device__ uint64_t* tokens(int query_tile) const {
    return reinterpret_cast<uint64_t*>(block_memory + tokens_at) + query_tile * 16;
  }
  // The gradients of the scores of a tile of queries and a tile of keys.
  __device__ uint4* left(int which, int query_tile, int key_tile) const {
    return reinterpret_cast<uint4*>(block_memory + tiles_at) +
           ((which * query_tiles + query_tile) * key_tiles + key_tile) * 32 +
           static_cast<int>(threadIdx.x) % 32;
  }
};

// Where this lane reads a staged tile: 16 bytes of row g at columns 32 i + 8 t, and of row g + 8.
// Odd rows have the halves of every 128 bytes exchanged, so that the eight lanes which are served
// together touch all banks once; as tiles begin at multiples of 256, column blocks are found by
// exclusive or.
template <class T, int kWidth>
struct StagedTile {
  static constexpr int kRow = Staged<T, kWidth>::kRow;
  int at;

  __device__ StagedTile(int begin, int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int flip = kWidth == 32 ? 0 : lane / 4 % 2 * 64;
    at = begin + tile * 16 * kRow + lane / 4 * kRow + lane % 4 * 16 + flip;
  }
  __device__ uint4 load(int half, int i) const {
    return *reinterpret_cast<const uint4*>(block_memory + (at ^ 64 * i) + half * 8 * kRow);
  }
};

// As rows_by_rows and weights_by_rows, from staged tiles and 32 columns at a time, so that few
// registers are taken.
template <class T, int kWidth>
__device__ inline void tile_by_tile(float (&c)[2][4], const StagedTile<T, kWidth>& left,
                                    const StagedTile<T, kWidth>& right) {
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    const uint4 low = left.load(0, i);
    const uint4 high = left.load(1, i);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4 b = right.load(n, i);
      multiply_add(c[n], low.x, high.x, low.y, high.y, b.x, b.y, T());
      multiply_add(c[n], low.z, high.z, low.w, high.w, b.z, b.w, T());
    }
  }
}
template <class T, int kWidth>
__device__ inline void weights_by_tile(Sums16<kWidth>& sums, uint4 weights,
                                       const StagedTile<T, kWidth>& right) {
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    weights_by_columns<T>(sums.c[i], weights, right.load(0, i), right.load(1, i));
  }
}

// Copies a thread's vector of every kStep-th row of two matrices to shared memory, and zeros past
// the last row: asynchronously, or on Turing with four rows of loads in flight.
template <int kStep, int kRow, class T>
__device__ inline void copy_vectors(const T* one, int64_t one_stride, const T* two,
                                    int64_t two_stride, int first, int rows, int padded,
                                    uint32_t to, uint32_t other) {
#if __CUDA_ARCH__ >= 800
#pragma unroll 1
  for (int row = first; row < padded; row += kStep) {
    const int bytes = row < rows ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(one), "r"(bytes));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + other), "l"(two),
                 "r"(bytes));
    one += kStep * one_stride;
    two += kStep * two_stride;
    to += kStep * kRow;
  }
#else
  constexpr int kAhead = 4;
#pragma unroll 1
  for (int begin = first; begin < padded; begin += kAhead * kStep) {
    uint4 x[kAhead][2] = {};
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n * kStep >= rows) continue;
      x[n][0] = *reinterpret_cast<const uint4*>(one + n * kStep * one_stride);
      x[n][1] = *reinterpret_cast<const uint4*>(two + n * kStep * two_stride);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      if (begin + n * kStep >= padded) continue;
      for (int m = 0; m < 2; ++m) {
        const uint4 v = x[n][m];
        const uint32_t at = to + n * kStep * kRow + m * other;
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y),
                     "r"(v.z), "r"(v.w)
                     : "memory");
      }
    }
    one += kAhead * kStep * one_stride;
    two += kAhead * kStep * two_stride;
    to += kAhead * kStep * kRow;
  }
#endif
}

// Starts copying `rows` rows of two matrices for each of some heads, and zeros up to whole tiles.
// A thread copies one vector of eight elements of each row.
template <class T, int kWidth>
__device__ inline void stage_rows(const T* one, int64_t one_stride, const T* two,
                                  int64_t two_stride, int rows, int tiles, int heads, int one_at,
                                  int two_at) {
  constexpr int kRow = Staged<T, kWidth>::kRow;
  constexpr int kPieces = kWidth / 8;
  constexpr int kStep = 32 * kAttentionWarps / kPieces;
  static_assert(kStep % 2 == 0);  // or the halves would be exchanged differently for each row
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int first = static_cast<int>(threadIdx.x) / kPieces;
  const int flip = kWidth == 32 ? 0 : first % 2 * 64;
  auto place = static_cast<uint32_t>(__cvta_generic_to_shared(block_memory)) +
               static_cast<uint32_t>(one_at + first * kRow + (piece * 16 ^ flip));
  const auto other = static_cast<uint32_t>(two_at - one_at);
  const T* head_one = one + first * one_stride + piece * 8;
  const T* head_two = two + first * two_stride + piece * 8;
#pragma unroll 1
  for (int h = 0; h < heads; ++h) {
    copy_vectors<kStep, kRow>(head_one, one_stride, head_two, two_stride, first, rows, tiles * 16,
                              place, other);
    head_one += kWidth;
    head_two += kWidth;
    place += static_cast<uint32_t>(tiles * 16 * kRow);
  }
}

__device__ inline void staged_ready() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

// Waits for the copies, and fills in the numbers of staged queries. O is only multiplied by dO,
// once, so it goes to registers; its loads start before the wait. Padded queries have an infinite
// sum, which makes their weights 0.
template <class T, int kWidth>
__device__ inline void fill_numbers(const AttentionArgs& a, int64_t first_query, int queries,
                                    uint32_t first_head, const Staged<T, kWidth>& s) {
  constexpr int kRow = Staged<T, kWidth>::kRow;
  constexpr int kLanes = kWidth / 8;
  constexpr int kStep = 32 * kAttentionWarps / kLanes;
  constexpr int kAhead = 4;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int padded = s.query_tiles * 16;
  const T* out = static_cast<const T*>(a.out) + first_query * a.out_stride +
                 static_cast<int64_t>(first_head) * kWidth + lane * 8;
  const float* logs = a.log_sums + first_query * a.log_stride + first_head;
  int head = 0;
  int query = static_cast<int>(threadIdx.x) / kLanes;
  bool waiting = true;
#pragma unroll 1
  for (int left = s.heads * padded; left > 0; left -= kAhead * kStep) {
    Raw8<T> x[kAhead];
    float log_sum[kAhead];
    int heads[kAhead];
    int rows[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      while (query >= padded) {
        query -= padded;
        ++head;
      }
      heads[n] = head;
      rows[n] = query;
      const int64_t row = min(query, queries - 1);
      const int which = min(head, s.heads - 1);
      x[n] = load_raw(out + row * a.out_stride + which * kWidth);
      log_sum[n] = logs[row * a.log_stride + which];
      query += kStep;
    }
    if (waiting) staged_ready();
    waiting = false;
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const bool inside = heads[n] < s.heads;
      const int row = inside ? heads[n] * padded + rows[n] : 0;
      const int flip = kWidth == 32 ? 0 : rows[n] % 2 * 64;
      const Eight o = unpack<T>(x[n]);
      const Eight d = load8(reinterpret_cast<const T*>(block_memory + s.dout_at + row * kRow +
                                                       (lane * 16 ^ (inside ? flip : 0))));
      float dot = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) dot = fmaf(o.v[i], d.v[i], dot);
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) {
        dot += __shfl_xor_sync(0xFFFFFFFFu, dot, step);
      }
      if (lane != 0 || !inside) continue;
      const bool real = rows[n] < queries;
      s.numbers(0, 0)[row] = {real ? log_sum[n] * kLog2e : INFINITY, real ? dot : 0.0F};
    }
  }
  __syncthreads();
}

// Stages all rows and numbers of some queries, and waits for them.
template <class T, int kWidth, bool kDrop>
__device__ inline void stage_queries(const AttentionArgs& a, int64_t first_query, int queries,
                                     uint32_t head, const Staged<T, kWidth>& s) {
  const int64_t column = static_cast<int64_t>(head) * kWidth;
  stage_rows<T, kWidth>(static_cast<const T*>(a.q) + first_query * a.q_stride + column, a.q_stride,
                        static_cast<const T*>(a.dout) + first_query * a.dout_stride + column,
                        a.dout_stride, queries, s.query_tiles, s.heads, s.q_at, s.dout_at);
  if constexpr (kDrop) {
    for (int i = static_cast<int>(threadIdx.x); i < s.query_tiles * 16; i += 32 * kAttentionWarps) {
      const uint64_t* from = a.drop.tokens + first_query + min(i, queries - 1);
#if __CUDA_ARCH__ >= 800
      const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(s.tokens(0) + i));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from));
#else
      s.tokens(0)[i] = *from;
#endif
    }
  }
  fill_numbers<T, kWidth>(a, first_query, queries, head, s);
}

template <class T, int kWidth>
__device__ inline void stage_keys(const AttentionArgs& a, int64_t first_key, int keys,
                                  uint32_t head, const Staged<T, kWidth>& s) {
  const int64_t column = static_cast<int64_t>(head) * kWidth;
  stage_rows<T, kWidth>(static_cast<const T*>(a.k) + first_key * a.k_stride + column, a.k_stride,
                        static_cast<const T*>(a.v) + first_key * a.v_stride + column, a.v_stride,
                        keys, s.key_tiles, s.heads, s.k_at, s.v_at);
}

}  // namespace reigen::cuda
