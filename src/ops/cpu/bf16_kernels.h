// The parts of products in bf16: factors packed in tiles, and blocks of the result from them.
//
// A tile has 16 rows or columns of a factor ("outer") by 32 steps of the sum ("inner"), in pairs of
// steps: 16 x 16 pairs, 1 KB, as the tile registers of AMX take it. Of the left factor a tile is
// [outer][pair], of the right factor [pair][outer]. A panel is the tiles of 16 outer indices, one
// after the other along the sum. Past the ends of a factor are zeros.
//
// AMX and AVX-512 BF16 read the same panels. The portable form computes what the AMX instructions
// do, bit for bit, so that packing, edges and orientations are tested on every processor.
#pragma once

#include <cstdint>

namespace reigen::cpu {

constexpr int64_t kTileOuter = 16;
constexpr int64_t kTileInner = 32;
constexpr int64_t kTileSize = kTileOuter * kTileInner;
// Panels come in pairs: AMX multiplies two by two tiles.
constexpr int64_t kPairOuter = 2 * kTileOuter;

enum class FactorSide : uint8_t { kLeft, kRight };

// Part of a factor in fp32.
struct PackTask {
  const float* values = nullptr;
  int64_t stride = 0;
  // Element (outer, inner) is values[outer * stride + inner], else values[inner * stride + outer].
  bool inner_contiguous = true;
  int64_t outer = 0;
  int64_t inner = 0;
  FactorSide side = FactorSide::kLeft;
};

// c = alpha a b + beta c for panels of both factors.
struct BlockTask {
  const uint16_t* a = nullptr;
  const uint16_t* b = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t tiles = 0;  // along the sum
  float* c = nullptr;
  int64_t stride = 0;
  float alpha = 1;
  float beta = 0;
  // The outer loop is over rows: the panels of `b` are those that fit into the cache.
  bool rows_outside = true;
};

struct Bf16Kernels {
  // Writes whole pairs of panels; rounds to nearest, ties to even.
  void (*pack)(const PackTask& task, uint16_t* panels);
  // Between start() and stop() of the same thread.
  void (*multiply)(const BlockTask& task);
  void (*start)();
  void (*stop)();
  // Copies the upper triangle of a square matrix to the lower one.
  void (*mirror)(float* c, int64_t stride, int64_t size);
};

enum class Bf16Unit : uint8_t {
  kAmx,
  kAvx512,
  kEmulatedAmx,  // AVX-512 packs
  kPortable,
};
// Null where the processor, or the kernel, does not have it.
const Bf16Kernels* bf16_kernels(Bf16Unit unit);

}  // namespace reigen::cpu
