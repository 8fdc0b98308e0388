// Tiles of 16 rows in registers: loading, multiplying, transposing and storing by a warp.
//
// All functions rely on one layout. Lane (g, t) = (lane / 4, lane % 4) loads 16 bytes of row g:
// columns 32 i + 8 t .. + 8. A sum over columns does not depend on their order, so these registers
// serve unchanged on both sides of mma.m16n8k16 for rows x rows products (Q K', dO V'). Where a
// matrix has to be summed over its rows instead (P V, dS K, dS' Q), `movmatrix` transposes each 8 x
// 8 block, and lane (g, t) ends up with the same eight neighbouring columns: stores are 16 bytes
// wide again. So no tile passes through shared memory, and no barrier is needed.
//
// Turing (sm_75) has the same layout in mma.m16n8k8, of which two make one product of 16 columns,
// in fp16 only. Older chips have neither, nor `movmatrix`: the host never launches these kernels
// there.
#pragma once

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {

__device__ inline void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1, bf16) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  __trap();
#endif
}
__device__ inline void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1, __half) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a2), "r"(a3), "r"(b1));
#else
  __trap();
#endif
}

__device__ inline uint32_t turned(uint32_t piece) {
#if __CUDA_ARCH__ >= 750
  uint32_t out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(piece));
  return out;
#else
  __trap();
  return piece;
#endif
}

// Sixteen rows: [0] is row g of this lane, [1] row g + 8.
template <int kWidth>
struct Rows16 {
  uint4 row[2][kWidth / 32];
};

// Rows from `first`; past `count` the last row is read again (never outside the sentence).
template <class T, int kWidth>
__device__ inline Rows16<kWidth> load_rows(const T* base, int64_t stride, int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Rows16<kWidth> out;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first + half * 8 + lane / 4, count - 1);
    const T* at = base + row * stride + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kWidth / 32; ++i) {
      out.row[half][i] = *reinterpret_cast<const uint4*>(at + 32 * i);
    }
  }
  return out;
}

// Prefetches sixteen rows of two matrices into the L2 cache: the next tile's, while this one is
// processed. One address a row, as a head's row is one cache line (or two, for width
// 128).
template <class T>
__device__ inline void fetch_ahead(const T* one, int64_t one_stride, const T* two,
                                   int64_t two_stride, int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = first + lane % 16;
  if (row >= count) return;
  const T* at = lane < 16 ? one + row * one_stride : two + row * two_stride;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// c[n] += left right' for 16 rows of each: c[0] is for right's first eight rows, c[1] for the
// others.
template <class T, int kWidth>
__device__ inline void rows_by_rows(float (&c)[2][4], const Rows16<kWidth>& left,
                                    const Rows16<kWidth>& right) {
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    const uint4 low = left.row[0][i];
    const uint4 high = left.row[1][i];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4 b = right.row[n][i];
      multiply_add(c[n], low.x, high.x, low.y, high.y, b.x, b.y, T());
      multiply_add(c[n], low.z, high.z, low.w, high.w, b.z, b.w, T());
    }
  }
}

// Sixteen rows being summed: [i][j] are columns 32 i + 8 t + 2 j, + 1 of rows g and g + 8.
template <int kWidth>
struct Sums16 {
  float c[kWidth / 32][4][4];
};

template <int kWidth>
__device__ inline Sums16<kWidth> zero_sums() {
  Sums16<kWidth> out;
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) out.c[i][j][k] = 0;
    }
  }
  return out;
}

// 16 x 16 weights as the left side of a product.
template <class T>
__device__ inline uint4 pack_weights(const float (&w)[2][4]) {
  return {pack2(w[0][0], w[0][1], T()), pack2(w[0][2], w[0][3], T()), pack2(w[1][0], w[1][1], T()),
          pack2(w[1][2], w[1][3], T())};
}

// The same weights with rows and columns exchanged.
__device__ inline uint4 turned_weights(uint4 w) {
  return {turned(w.x), turned(w.z), turned(w.y), turned(w.w)};
}

// sums += weights right, for 32 columns of `right`.
template <class T>
__device__ inline void weights_by_columns(float (&sums)[4][4], uint4 weights, uint4 low,
                                          uint4 high) {
  const auto [a0, a1, a2, a3] = weights;
  multiply_add(sums[0], a0, a1, a2, a3, turned(low.x), turned(high.x), T());
  multiply_add(sums[1], a0, a1, a2, a3, turned(low.y), turned(high.y), T());
  multiply_add(sums[2], a0, a1, a2, a3, turned(low.z), turned(high.z), T());
  multiply_add(sums[3], a0, a1, a2, a3, turned(low.w), turned(high.w), T());
}

// sums += weights right.
template <class T, int kWidth>
__device__ inline void weights_by_rows(Sums16<kWidth>& sums, uint4 weights,
                                       const Rows16<kWidth>& right) {
#pragma unroll
  for (int i = 0; i < kWidth / 32; ++i) {
    weights_by_columns<T>(sums.c[i], weights, right.row[0][i], right.row[1][i]);
  }
}

// Rows g (times factor[0]) and g + 8 (times factor[1]) to memory, where they are below `count`.
template <class T, int kWidth>
__device__ inline void store_rows(const Sums16<kWidth>& sums, const float (&factor)[2], T* base,
                                  int64_t stride, int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + half * 8 + lane / 4;
    if (row >= count) continue;
#pragma unroll
    for (int i = 0; i < kWidth / 32; ++i) {
      Eight e;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        e.v[2 * j] = sums.c[i][j][2 * half] * factor[half];
        e.v[2 * j + 1] = sums.c[i][j][2 * half + 1] * factor[half];
      }
      store8(base + row * stride + 32 * i + lane % 4 * 8, e);
    }
  }
}

// Dropout of 16 keys from `first_key` (a multiple of 16) for each of 16 queries: a bit is set where
// the weight is not dropped. Lane l draws one Philox counter, for query l / 2 (whose token is
// `token`) and keys 8 (l % 2) .. + 8. Pairs of lanes join their bits: lane 2 q holds the sixteen
// bits of query q.
__device__ inline uint32_t draw_keep16(const Drop& drop, uint64_t token, uint32_t head,
                                       int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t block = (head << 16) + static_cast<uint32_t>(first_key / 8 + lane % 2);
  const uint32_t bits = keep_bits(drop, token, block) << (8 * (lane % 2));
  return bits | __shfl_xor_sync(0xFFFFFFFFu, bits, 1);
}
// The token a lane draws for.
__device__ inline uint64_t token_of(const uint64_t* tokens, int first_query, int queries) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tokens[min(first_query + lane / 2, queries - 1)];
}

}  // namespace reigen::cuda
