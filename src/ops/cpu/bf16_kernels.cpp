#include "ops/cpu/bf16_kernels.h"

#include <hwy/base.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined values inside its own intrinsics for ours (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace reigen::cpu {
namespace {

int64_t panel_pairs(int64_t outer) { return (outer + kPairOuter - 1) / kPairOuter; }
int64_t tiles_of(int64_t inner) { return (inner + kTileInner - 1) / kTileInner; }

void nothing_to_do() {}

void pack_portable(const PackTask& task, uint16_t* panels) {
  const int64_t tiles = tiles_of(task.inner);
  std::fill_n(panels, 2 * panel_pairs(task.outer) * tiles * kTileSize, uint16_t{0});
  for (int64_t o = 0; o < task.outer; ++o) {
    for (int64_t i = 0; i < task.inner; ++i) {
      const int64_t at = task.inner_contiguous ? o * task.stride + i : i * task.stride + o;
      uint16_t* tile = panels + (o / kTileOuter * tiles + i / kTileInner) * kTileSize;
      const int64_t row = o % kTileOuter;
      const int64_t pair = i % kTileInner / 2;
      const int64_t place =
          task.side == FactorSide::kLeft ? row * kTileOuter + pair : pair * kTileOuter + row;
      round_to_bf16(task.values + at, tile + 2 * place + i % 2, 1);
    }
  }
}

void mirror_portable(float* c, int64_t stride, int64_t size) {
  for (int64_t r = 1; r < size; ++r) {
    for (int64_t i = 0; i < r; ++i) c[r * stride + i] = c[i * stride + r];
  }
}

// The eight tile registers of AMX in memory, and its instructions as their documentation defines
// them: products of even and of odd steps are summed apart, then both are added to the result.
class EmulatedTiles {
 public:
  template <int kTile>
  void zero() {
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    for (int64_t r = 0; r < kTileOuter; ++r) {
      std::memcpy(tiles_[kTile] + r * kTileOuter, static_cast<const char*>(from) + r * stride_bytes,
                  kTileOuter * sizeof(float));
    }
  }
  template <int kTile>
  void store(void* into, int64_t stride_bytes) const {
    for (int64_t r = 0; r < kTileOuter; ++r) {
      std::memcpy(static_cast<char*>(into) + r * stride_bytes, tiles_[kTile] + r * kTileOuter,
                  kTileOuter * sizeof(float));
    }
  }
  template <int kSum, int kLeft, int kRight>
  void add_product() {
    for (int64_t row = 0; row < kTileOuter; ++row) {
      float sums[2][kTileOuter] = {};
      for (int64_t pair = 0; pair < kTileOuter; ++pair) {
        const uint32_t left = tiles_[kLeft][row * kTileOuter + pair];
        const uint32_t* right = tiles_[kRight] + pair * kTileOuter;
        for (int64_t col = 0; col < kTileOuter; ++col) {
          sums[0][col] += low(left) * low(right[col]);  // products of bf16 are exact in fp32
          sums[1][col] += high(left) * high(right[col]);
        }
      }
      for (int64_t col = 0; col < kTileOuter; ++col) {
        uint32_t& sum = tiles_[kSum][row * kTileOuter + col];
        sum = std::bit_cast<uint32_t>(std::bit_cast<float>(sum) + (sums[0][col] + sums[1][col]));
      }
    }
  }

 private:
  static float low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
  static float high(uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000U); }

  uint32_t tiles_[8][kTileOuter * kTileOuter];
};

// The result is written once the sum is complete; meanwhile its lines come into the cache.
inline void prefetch_rows(const float* c, int64_t stride, int64_t rows, int64_t cols) {
  constexpr int64_t kLine = 16;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < cols; i += kLine) __builtin_prefetch(c + r * stride + i, 1);
  }
}

// Adds a block to part of the result.
void merge(const float* block, const BlockTask& task, int64_t row, int64_t col) {
  const int64_t rows = std::min(kPairOuter, task.rows - row);
  const int64_t cols = std::min(kPairOuter, task.cols - col);
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = block + r * kPairOuter;
    float* to = task.c + (row + r) * task.stride + col;
    // With beta 0 the old value may be anything.
    for (int64_t i = 0; i < cols; ++i) {
      to[i] = task.beta == 0 ? task.alpha * from[i] : task.alpha * from[i] + task.beta * to[i];
    }
  }
}

// Two by two tiles of the result. Whole ones stay in tile registers from their old value to their
// new one.
template <class Tiles>
inline void multiply_pair(const BlockTask& task, int64_t row, int64_t col) {
  constexpr int64_t kRow = kTileOuter * sizeof(float);  // bytes
  const int64_t panel = task.tiles * kTileSize;
  const uint16_t* a = task.a + row / kTileOuter * panel;
  const uint16_t* b = task.b + col / kTileOuter * panel;
  float* c = task.c + row * task.stride + col;
  const int64_t c_row = task.stride * static_cast<int64_t>(sizeof(float));
  const bool whole = row + kPairOuter <= task.rows && col + kPairOuter <= task.cols;
  const bool direct = whole && task.alpha == 1 && (task.beta == 0 || task.beta == 1);
  Tiles tiles;
  if (direct && task.beta == 1) {
    tiles.template load<0>(c, c_row);
    tiles.template load<1>(c + kTileOuter, c_row);
    tiles.template load<2>(c + kTileOuter * task.stride, c_row);
    tiles.template load<3>(c + kTileOuter * task.stride + kTileOuter, c_row);
  } else {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  if (whole) prefetch_rows(c, task.stride, kPairOuter, kPairOuter);
  for (int64_t t = 0; t < task.tiles; ++t) {
    tiles.template load<6>(b + t * kTileSize, kRow);
    tiles.template load<4>(a + t * kTileSize, kRow);
    tiles.template add_product<0, 4, 6>();
    tiles.template load<7>(b + panel + t * kTileSize, kRow);
    tiles.template add_product<1, 4, 7>();
    tiles.template load<5>(a + panel + t * kTileSize, kRow);
    tiles.template add_product<2, 5, 6>();
    tiles.template add_product<3, 5, 7>();
  }
  alignas(64) float block[kPairOuter * kPairOuter];
  float* out = direct ? c : block;
  const int64_t stride = direct ? task.stride : kPairOuter;
  const int64_t out_row = stride * static_cast<int64_t>(sizeof(float));
  tiles.template store<0>(out, out_row);
  tiles.template store<1>(out + kTileOuter, out_row);
  tiles.template store<2>(out + kTileOuter * stride, out_row);
  tiles.template store<3>(out + kTileOuter * stride + kTileOuter, out_row);
  if (!direct) merge(block, task, row, col);
}

template <class Tiles>
void multiply_tiles(const BlockTask& task) {
  if (task.rows_outside) {
    for (int64_t row = 0; row < task.rows; row += kPairOuter) {
      for (int64_t col = 0; col < task.cols; col += kPairOuter) {
        multiply_pair<Tiles>(task, row, col);
      }
    }
    return;
  }
  for (int64_t col = 0; col < task.cols; col += kPairOuter) {
    for (int64_t row = 0; row < task.rows; row += kPairOuter) {
      multiply_pair<Tiles>(task, row, col);
    }
  }
}

}  // namespace
}  // namespace reigen::cpu

#if defined(__x86_64__)

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
namespace reigen::cpu {
namespace {

using Pairs = __m512i;  // 16 pairs of bf16

// 32 numbers in bf16, in order.
inline Pairs rounded(__m512 first, __m512 second) {
  return reinterpret_cast<Pairs>(_mm512_cvtne2ps_pbh(second, first));
}

inline __mmask16 first_lanes(int64_t count) {
  if (count >= 16) return 0xFFFF;
  return static_cast<__mmask16>((1U << std::max<int64_t>(count, 0)) - 1);
}

// 16 x 16, of four bytes each.
inline void transpose(Pairs (&v)[16]) {
  Pairs t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // v[4 g + j] has, in its 128-bit part p, elements 4 g to 4 g + 3 of column 4 p + j.
  for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xDD);
    t[8 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xDD);
  }
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
    v[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xDD);
    v[4 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0x88);
    v[12 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0xDD);
  }
}

void mirror_avx512(float* c, int64_t stride, int64_t size) {
  for (int64_t row = 0; row < size; row += 16) {
    const int64_t rows = std::min<int64_t>(16, size - row);
    for (int64_t col = row; col < size; col += 16) {
      const __mmask16 lanes = first_lanes(size - col);
      Pairs v[16];
      for (int64_t r = 0; r < 16; ++r) {
        v[r] = r < rows ? _mm512_maskz_loadu_epi32(lanes, c + (row + r) * stride + col)
                        : _mm512_setzero_si512();
      }
      transpose(v);
      for (int64_t r = 0; r < std::min<int64_t>(16, size - col); ++r) {
        // In a tile on the diagonal, only the values below it.
        const __mmask16 below = first_lanes(col == row ? r : rows);
        _mm512_mask_storeu_epi32(c + (col + r) * stride + row, below, v[r]);
      }
    }
  }
}

// One tile, of which `outer` by `inner` exist. The order of vectors is that of memory.
inline void pack_tile(const PackTask& task, const float* from, int64_t outer, int64_t inner,
                      uint16_t* tile) {
  Pairs v[16];
  if (task.inner_contiguous) {
    const __mmask16 first = first_lanes(inner);
    const __mmask16 second = first_lanes(inner - 16);
    for (int64_t o = 0; o < 16; ++o) {
      if (o >= outer) {
        v[o] = _mm512_setzero_si512();
        continue;
      }
      const float* row = from + o * task.stride;
      v[o] = rounded(_mm512_maskz_loadu_ps(first, row), _mm512_maskz_loadu_ps(second, row + 16));
    }
  } else {
    // Lane i of both rows becomes pair i.
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __mmask16 lanes = first_lanes(outer);
    for (int64_t pair = 0; pair < 16; ++pair) {
      const float* row = from + 2 * pair * task.stride;
      const __mmask16 even = 2 * pair < inner ? lanes : 0;
      const __mmask16 odd = 2 * pair + 1 < inner ? lanes : 0;
      v[pair] = _mm512_permutexvar_epi16(
          order, rounded(_mm512_maskz_loadu_ps(even, row),
                         _mm512_maskz_loadu_ps(odd, odd != 0 ? row + task.stride : row)));
    }
  }
  if (task.inner_contiguous == (task.side == FactorSide::kRight)) transpose(v);
  for (int64_t i = 0; i < 16; ++i) _mm512_store_si512(tile + 32 * i, v[i]);
}

void pack_avx512(const PackTask& task, uint16_t* panels) {
  const int64_t tiles = tiles_of(task.inner);
  const int64_t count = 2 * panel_pairs(task.outer);
  auto at = [&](int64_t o, int64_t i) {
    return task.values + (task.inner_contiguous ? o * task.stride + i : i * task.stride + o);
  };
  // In the order of memory.
  const int64_t steps = count * tiles;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t panel = task.inner_contiguous ? step / tiles : step % count;
    const int64_t t = task.inner_contiguous ? step % tiles : step / count;
    const int64_t outer = task.outer - panel * kTileOuter;
    uint16_t* tile = panels + (panel * tiles + t) * kTileSize;
    if (outer <= 0) {
      std::memset(tile, 0, kTileSize * sizeof(uint16_t));
      continue;
    }
    pack_tile(task, at(panel * kTileOuter, t * kTileInner), outer, task.inner - t * kTileInner,
              tile);
  }
}

inline void store_sums(__m512 sums, __mmask16 lanes, float alpha, float beta, float* c) {
  if (alpha != 1) sums = _mm512_mul_ps(sums, _mm512_set1_ps(alpha));
  if (beta != 0) {
    sums = _mm512_fmadd_ps(_mm512_set1_ps(beta), _mm512_maskz_loadu_ps(lanes, c), sums);
  }
  _mm512_mask_storeu_ps(c, lanes, sums);
}

// Half a panel of rows by up to three panels of columns: 24 of 32 registers are sums.
constexpr int64_t kRowsOfSums = 8;

template <int kPanels>
void multiply_registers(const BlockTask& task, int64_t row, int64_t col) {
  const int64_t panel = task.tiles * kTileSize;
  const uint16_t* a = task.a + row / kTileOuter * panel + row % kTileOuter * kTileInner;
  const uint16_t* b = task.b + col / kTileOuter * panel;
  __m512 sums[kRowsOfSums][kPanels];
  for (auto& of_row : sums) {
    for (__m512& s : of_row) s = _mm512_setzero_ps();
  }
  const int64_t rows = std::min(kRowsOfSums, task.rows - row);
  float* c = task.c + row * task.stride + col;
  prefetch_rows(c, task.stride, rows, std::min(kPanels * kTileOuter, task.cols - col));
  for (int64_t t = 0; t < task.tiles; ++t, a += kTileSize, b += kTileSize) {
#pragma GCC unroll 4
    for (int64_t pair = 0; pair < 16; ++pair) {
      __m512bh right[kPanels];
      for (int j = 0; j < kPanels; ++j) {
        right[j] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + j * panel + pair * kTileInner));
      }
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRowsOfSums; ++r) {
        int both;
        std::memcpy(&both, a + r * kTileInner + 2 * pair, sizeof(both));
        const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
        for (int j = 0; j < kPanels; ++j) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], left, right[j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRowsOfSums; ++r) {
    if (r >= rows) break;
    for (int j = 0; j < kPanels; ++j) {
      const __mmask16 lanes = first_lanes(task.cols - col - j * kTileOuter);
      store_sums(sums[r][j], lanes, task.alpha, task.beta, c + r * task.stride + j * kTileOuter);
    }
  }
}

// Panels of columns that are multiplied at once: a single one would wait for its own sums.
inline int64_t next_panels(int64_t left) { return left == 4 ? 2 : std::min<int64_t>(left, 3); }

inline void multiply_some(const BlockTask& task, int64_t row, int64_t col, int64_t panels) {
  if (panels == 3) return multiply_registers<3>(task, row, col);
  if (panels == 2) return multiply_registers<2>(task, row, col);
  multiply_registers<1>(task, row, col);
}

void multiply_avx512(const BlockTask& task) {
  const int64_t panels = (task.cols + kTileOuter - 1) / kTileOuter;
  if (task.rows_outside) {
    for (int64_t row = 0; row < task.rows; row += kRowsOfSums) {
      for (int64_t p = 0, next; p < panels; p += next) {
        next = next_panels(panels - p);
        multiply_some(task, row, p * kTileOuter, next);
      }
    }
    return;
  }
  for (int64_t p = 0, next; p < panels; p += next) {
    next = next_panels(panels - p);
    for (int64_t row = 0; row < task.rows; row += kRowsOfSums) {
      multiply_some(task, row, p * kTileOuter, next);
    }
  }
}

}  // namespace
}  // namespace reigen::cpu
HWY_POP_ATTRIBUTES

namespace reigen::cpu {
namespace {

// The tile registers themselves. In assembly because the intrinsics of GCC are macros that take no
// template arguments.
class AmxTiles {
 public:
  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  void store(void* into, int64_t stride_bytes) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(into), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kSum, int kLeft, int kRight>
  void add_product() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kLeft), "i"(kRight));
  }
};

// All eight tiles have 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

void start_amx() {
  const TileShapes shapes;
  asm volatile("ldtilecfg %0" ::"m"(shapes));
}
void stop_amx() { asm volatile("tilerelease"); }

bool has_avx512_bf16() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// Linux grants the use of tile registers to a process on request (arch_prctl(2)).
bool may_use_amx() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr int kRequestPermission = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const Bf16Kernels* bf16_kernels(Bf16Unit unit) {
  static const Bf16Kernels amx{pack_avx512, multiply_tiles<AmxTiles>, start_amx, stop_amx,
                               mirror_avx512};
  static const Bf16Kernels avx512{pack_avx512, multiply_avx512, nothing_to_do, nothing_to_do,
                                  mirror_avx512};
  static const Bf16Kernels emulated{pack_avx512, multiply_tiles<EmulatedTiles>, nothing_to_do,
                                    nothing_to_do, mirror_avx512};
  static const Bf16Kernels portable{pack_portable, multiply_tiles<EmulatedTiles>, nothing_to_do,
                                    nothing_to_do, mirror_portable};
  static const bool has_avx512 = has_avx512_bf16();
  static const bool has_amx = has_avx512 && may_use_amx();
  switch (unit) {
    case Bf16Unit::kAmx:
      return has_amx ? &amx : nullptr;
    case Bf16Unit::kAvx512:
      return has_avx512 ? &avx512 : nullptr;
    case Bf16Unit::kEmulatedAmx:
      return has_avx512 ? &emulated : nullptr;
    case Bf16Unit::kPortable:
      break;
  }
  return &portable;
}

}  // namespace reigen::cpu

#else

namespace reigen::cpu {

const Bf16Kernels* bf16_kernels(Bf16Unit unit) {
  static const Bf16Kernels portable{pack_portable, multiply_tiles<EmulatedTiles>, nothing_to_do,
                                    nothing_to_do, mirror_portable};
  return unit == Bf16Unit::kPortable ? &portable : nullptr;
}

}  // namespace reigen::cpu

#endif
