#include "ops/cpu/int8_kernels.h"

#include <algorithm>
#include <cstddef>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace reigen::cpu {
namespace {

int64_t filled_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

Int8Panels pack_panels(const Int8Matrix& weight, const Int8Kernels& kernels) {
  Int8Panels panels;
  panels.inner = filled_to(weight.cols, kPanelInner);
  const int64_t outputs = filled_to(weight.rows, kPanelOutputs);
  panels.values.resize(static_cast<size_t>(outputs * panels.inner));
  for (int64_t r = 0; r < weight.rows; ++r) {
    const int8_t* row = weight.row(r);
    int8_t* panel = panels.values.data() + r / kPanelOutputs * kPanelOutputs * panels.inner;
    for (int64_t i = 0; i < weight.cols; ++i) {
      const int64_t group = i / kernels.step * kPanelOutputs + r % kPanelOutputs;
      panel[group * kernels.step + i % kernels.step] = row[i];
    }
  }
  return panels;
}

}  // namespace reigen::cpu

#if defined(__aarch64__)

namespace reigen::cpu {
namespace {

constexpr int64_t kRowsOfTile = 4;
constexpr int64_t kVectorsOfPanel = kPanelOutputs / 4;  // of sums

// Where a tile reads and writes. Rows that are left over repeat the first one.
struct Int8Tile {
  const uint8_t* x[kRowsOfTile];
  const int8_t* panel;
  int64_t inner;
  const int32_t* weight_sums;
  int32_t out[kRowsOfTile][kPanelOutputs];
};

// Dot products multiply signed bytes: they take x - 128, and 128 times the sum of the weight is
// what a sum begins with.
template <int kLane, int kRows>
[[gnu::target("arch=armv8.2-a+dotprod"), gnu::always_inline]] inline void add_dots(
    const int8_t* weight, const int8x16_t (&x)[kRows], int32x4_t (&sums)[kRows][kVectorsOfPanel]) {
  for (int v = 0; v < kVectorsOfPanel; ++v) {
    const int8x16_t some = vld1q_s8(weight + 16 * (kLane * kVectorsOfPanel + v));
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] = vdotq_laneq_s32(sums[r][v], some, x[r], kLane);
    }
  }
}

template <int kRows>
[[gnu::target("arch=armv8.2-a+dotprod")]] void dot_tile(Int8Tile& tile) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  int32x4_t sums[kRows][kVectorsOfPanel];
  for (int v = 0; v < kVectorsOfPanel; ++v) {
    sums[0][v] = vshlq_n_s32(vld1q_s32(tile.weight_sums + 4 * v), 7);
    for (int r = 1; r < kRows; ++r) sums[r][v] = sums[0][v];
  }
  for (int64_t i = 0; i < tile.inner; i += kPanelInner) {
    const int8_t* weight = tile.panel + i * kPanelOutputs;
    int8x16_t x[kRows];
    for (int r = 0; r < kRows; ++r) {
      x[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(tile.x[r] + i), sign));
    }
    add_dots<0>(weight, x, sums);
    add_dots<1>(weight, x, sums);
    add_dots<2>(weight, x, sums);
    add_dots<3>(weight, x, sums);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectorsOfPanel; ++v) vst1q_s32(tile.out[r] + 4 * v, sums[r][v]);
  }
}

// An I8MM instruction multiplies two rows of x with two outputs, eight steps each.
template <int kPairs>
[[gnu::target("arch=armv8.2-a+i8mm")]] void i8mm_tile(Int8Tile& tile) {
  constexpr int kOutputPairs = kPanelOutputs / 2;
  int32x4_t sums[kPairs][kOutputPairs];
  for (auto& of_pair : sums) std::fill_n(of_pair, kOutputPairs, vdupq_n_s32(0));
  for (int64_t i = 0; i < tile.inner; i += kPanelInner) {
    uint8x16_t x[kPairs][2];
    for (int p = 0; p < kPairs; ++p) {
      const uint64x2_t first = vreinterpretq_u64_u8(vld1q_u8(tile.x[2 * p] + i));
      const uint64x2_t second = vreinterpretq_u64_u8(vld1q_u8(tile.x[2 * p + 1] + i));
      x[p][0] = vreinterpretq_u8_u64(vzip1q_u64(first, second));
      x[p][1] = vreinterpretq_u8_u64(vzip2q_u64(first, second));
    }
    for (int half = 0; half < 2; ++half) {
      const int8_t* weight = tile.panel + (i + 8 * half) * kPanelOutputs;
      for (int o = 0; o < kOutputPairs; ++o) {
        const int8x16_t some = vld1q_s8(weight + 16 * o);
        for (int p = 0; p < kPairs; ++p) {
          sums[p][o] = vusmmlaq_s32(sums[p][o], x[p][half], some);
        }
      }
    }
  }
  for (int p = 0; p < kPairs; ++p) {
    for (int o = 0; o < kOutputPairs; ++o) {
      vst1_s32(tile.out[2 * p] + 2 * o, vget_low_s32(sums[p][o]));
      vst1_s32(tile.out[2 * p + 1] + 2 * o, vget_high_s32(sums[p][o]));
    }
  }
}

void dot_rows(Int8Tile& tile, int64_t rows) {
  rows > 1 ? dot_tile<kRowsOfTile>(tile) : dot_tile<1>(tile);
}
void i8mm_rows(Int8Tile& tile, int64_t rows) {
  rows > 2 ? i8mm_tile<kRowsOfTile / 2>(tile) : i8mm_tile<1>(tile);
}

// A panel stays in the first cache while all rows pass.
template <auto kTileOfRows>
void multiply_panels(const Int8PanelTask& task) {
  Int8Tile tile;
  tile.inner = task.weight->inner;
  for (int64_t done = 0; done < task.outputs; done += kPanelOutputs) {
    const int64_t first = task.first + done;
    tile.panel = task.weight->values.data() + first * tile.inner;
    tile.weight_sums = task.weight_sums + first;
    const int64_t outputs = std::min(kPanelOutputs, task.outputs - done);
    for (int64_t row = 0; row < task.rows; row += kRowsOfTile) {
      const int64_t rows = std::min(kRowsOfTile, task.rows - row);
      for (int64_t r = 0; r < kRowsOfTile; ++r) {
        tile.x[r] = task.x + (row + (r < rows ? r : 0)) * tile.inner;
      }
      kTileOfRows(tile, rows);
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(tile.out[r], outputs, task.sums + (row + r) * task.sums_stride + done);
      }
    }
  }
}

}  // namespace

const Int8Kernels* int8_kernels(Int8Unit unit) {
  constexpr unsigned long kHasDot = 1UL << 20;   // of AT_HWCAP: HWCAP_ASIMDDP
  constexpr unsigned long kHasI8mm = 1UL << 13;  // of AT_HWCAP2: HWCAP2_I8MM
  static constexpr Int8Kernels i8mm{8, multiply_panels<i8mm_rows>};
  static constexpr Int8Kernels dot{4, multiply_panels<dot_rows>};
  static const bool has_dot = (getauxval(AT_HWCAP) & kHasDot) != 0;
  static const bool has_i8mm = (getauxval(AT_HWCAP2) & kHasI8mm) != 0;
  if (unit == Int8Unit::kI8mm) return has_i8mm ? &i8mm : nullptr;
  return has_dot ? &dot : nullptr;
}

}  // namespace reigen::cpu

#else

namespace reigen::cpu {

const Int8Kernels* int8_kernels(Int8Unit) { return nullptr; }

}  // namespace reigen::cpu

#endif
