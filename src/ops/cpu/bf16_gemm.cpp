#include "ops/cpu/bf16_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ops/backend.h"
#include "ops/cpu/library_weight.h"

namespace reigen::cpu {
namespace {

// A pair of panels of this depth takes 32 KB, so that it stays in the first cache while the other
// factor passes.
constexpr int64_t kMostInner = 512;
// Pairs of panels of the larger factor that a thread packs at once: 128 KB.
constexpr int64_t kPairsAtOnce = 4;
// Fewer of a triangle: values of a block below the diagonal are computed in vain.
constexpr int64_t kPairsOfTriangle = 1;
// Parts of the sum for which the smaller factor is packed at once. While a block of the larger one
// is multiplied by them, its result stays in the second cache.
constexpr int64_t kPartsAtOnce = 8;

int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

uint16_t* new_panels(int64_t count) {
  void* memory = std::aligned_alloc(64, static_cast<size_t>(count) * sizeof(uint16_t));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<uint16_t*>(memory);
}

// Memory for panels that only grows.
class Panels {
 public:
  Panels() = default;
  Panels(const Panels&) = delete;
  Panels& operator=(const Panels&) = delete;
  ~Panels() { std::free(memory_); }

  uint16_t* room_for(int64_t count) {
    if (count <= size_) return memory_;
    std::free(memory_);
    memory_ = nullptr;
    memory_ = new_panels(count);
    size_ = count;
    return memory_;
  }

 private:
  uint16_t* memory_ = nullptr;
  int64_t size_ = 0;
};

// The parts of a sum: equal, and whole tiles but for the last one.
struct Parts {
  explicit Parts(int64_t inner)
      : inner(inner),
        step(divided_up(divided_up(inner, std::max<int64_t>(1, divided_up(inner, kMostInner))),
                        kTileInner) *
             kTileInner) {}
  int64_t size_at(int64_t first) const { return std::min(step, inner - first); }
  int64_t inner;
  int64_t step;
};

// A factor seen from the side of its outer index.
struct Factor {
  Factor(Tensor values, bool inner_contiguous, FactorSide side)
      : values(values),
        inner_contiguous(inner_contiguous),
        side(side),
        outer(inner_contiguous ? values.rows : values.cols) {}

  PackTask part(int64_t first_outer, int64_t outers, int64_t first_inner, int64_t inners) const {
    const int64_t row = inner_contiguous ? first_outer : first_inner;
    const int64_t col = inner_contiguous ? first_inner : first_outer;
    return {.values = static_cast<const float*>(values.data) + row * values.stride + col,
            .stride = values.stride,
            .inner_contiguous = inner_contiguous,
            .outer = outers,
            .inner = inners,
            .side = side};
  }

  Tensor values;
  bool inner_contiguous;
  FactorSide side;
  int64_t outer;
};

int64_t pairs_of(int64_t outer) { return divided_up(outer, kPairOuter); }
int64_t tiles_of(int64_t inner) { return divided_up(inner, kTileInner); }

// Where a part of the sum begins in a factor that is packed whole.
int64_t part_at(const Factor& factor, int64_t first) {
  return pairs_of(factor.outer) * 2 * (first / kTileInner) * kTileSize;
}

// Steps [begin, end) of the sum, a part after the other.
void pack_whole(const Device& device, const Bf16Kernels& kernels, const Factor& factor,
                const Parts& parts, int64_t begin, int64_t end, uint16_t* panels) {
  parallel_for(device, pairs_of(factor.outer), 1, [&](int64_t first_pair, int64_t last_pair, int) {
    const int64_t from = first_pair * kPairOuter;
    const int64_t outer = std::min(last_pair * kPairOuter, factor.outer) - from;
    for (int64_t first = begin; first < end; first += parts.step) {
      const int64_t inner = parts.size_at(first);
      kernels.pack(
          factor.part(from, outer, first, inner),
          panels + part_at(factor, first - begin) + first_pair * 2 * tiles_of(inner) * kTileSize);
    }
  });
}

// The part of the result whose larger side begins at `first`.
BlockTask block_at(const Bf16Product& p, FactorSide larger, int64_t first, int64_t count) {
  const bool rows = larger == FactorSide::kLeft;
  BlockTask block;
  block.rows = rows ? count : p.c.rows;
  block.cols = rows ? p.c.cols : count;
  block.c = p.c.row(0) + (rows ? first * p.c.stride : first);
  block.stride = p.c.stride;
  block.alpha = p.alpha;
  // The panels of the larger factor were just packed and are in a cache.
  block.rows_outside = !rows;
  return block;
}

// With `upper` only the blocks of rows from the diagonal on, of a square result.
void multiply(const Device& device, const Bf16Kernels& kernels, const Bf16Product& p, bool upper) {
  const Factor left(p.a, p.ta == Transpose::kNo, FactorSide::kLeft);
  const Factor right(p.b, p.tb == Transpose::kYes, FactorSide::kRight);
  const bool left_is_larger = left.outer >= right.outer;
  const Factor& larger = left_is_larger ? left : right;
  const Factor& smaller = left_is_larger ? right : left;
  thread_local Panels shared_memory;
  const Parts parts(p.ta == Transpose::kNo ? p.a.cols : p.a.rows);
  for (int64_t begin = 0; begin < parts.inner; begin += kPartsAtOnce * parts.step) {
    const int64_t end = std::min(begin + kPartsAtOnce * parts.step, parts.inner);
    uint16_t* shared = shared_memory.room_for(part_at(smaller, tiles_of(end - begin) * kTileInner));
    pack_whole(device, kernels, smaller, parts, begin, end, shared);
    const auto some_rows = [&](int64_t from, int64_t to, uint16_t* own) {
      BlockTask block = block_at(p, larger.side, from, to - from);
      for (int64_t first = begin; first < end; first += parts.step) {
        const int64_t inner = parts.size_at(first);
        kernels.pack(larger.part(from, to - from, first, inner), own);
        const uint16_t* of_all = shared + part_at(smaller, first - begin);
        if (upper) {  // both factors have the same panels, and the left one is divided
          block.cols = p.c.cols - from;
          block.c = p.c.row(from) + from;
          of_all += from / kPairOuter * 2 * tiles_of(inner) * kTileSize;
        }
        block.a = left_is_larger ? own : of_all;
        block.b = left_is_larger ? of_all : own;
        block.tiles = tiles_of(inner);
        block.beta = first == 0 ? p.beta : 1;
        kernels.multiply(block);
      }
    };
    parallel_for(device, pairs_of(larger.outer), 1, [&](int64_t first, int64_t last, int) {
      thread_local Panels own_memory;
      uint16_t* own = own_memory.room_for(kPairsAtOnce * kPairOuter * parts.step);
      kernels.start();
      const int64_t pairs = upper ? kPairsOfTriangle : kPairsAtOnce;
      for (int64_t pair = first; pair < last; pair += pairs) {
        some_rows(pair * kPairOuter,
                  std::min(std::min(last, pair + pairs) * kPairOuter, larger.outer), own);
      }
      kernels.stop();
    });
  }
}

}  // namespace

void multiply_bf16(const Device& device, const Bf16Kernels& kernels, const Bf16Product& product) {
  multiply(device, kernels, product, false);
}

void gram_bf16(const Device& device, const Bf16Kernels& kernels, Tensor x, Transpose t, Tensor c) {
  const bool transposed = t == Transpose::kYes;
  multiply(device, kernels, {.a = x, .ta = t, .b = x, .tb = Transpose(!transposed), .c = c}, true);
  kernels.mirror(c.row(0), c.stride, c.rows);
}

void Bf16Weight::Freed::operator()(uint16_t* memory) const { std::free(memory); }

Bf16Weight::Bf16Weight(const Device& device, const Bf16Kernels& kernels, Tensor weight)
    : kernels_(kernels), out_(weight.rows), in_(weight.cols) {
  const Factor factor(weight, true, FactorSide::kRight);
  panels_.reset(new_panels(part_at(factor, tiles_of(in_) * kTileInner)));
  pack_whole(device, kernels, factor, Parts(in_), 0, in_, panels_.get());
}

void Bf16Weight::multiply(const Device& device, Tensor x, Tensor y) const {
  const Factor left(x, true, FactorSide::kLeft);
  const Parts parts(in_);
  thread_local Panels shared_memory;
  uint16_t* shared = shared_memory.room_for(part_at(left, tiles_of(in_) * kTileInner));
  pack_whole(device, kernels_, left, parts, 0, in_, shared);
  Bf16Product product;
  product.c = y;
  parallel_for(device, pairs_of(out_), 1, [&](int64_t begin, int64_t end, int) {
    const int64_t from = begin * kPairOuter;
    BlockTask block =
        block_at(product, FactorSide::kRight, from, std::min(end * kPairOuter, out_) - from);
    block.rows_outside = false;  // every panel of the weight is read from memory once
    kernels_.start();
    for (int64_t first = 0; first < in_; first += parts.step) {
      const int64_t tiles = tiles_of(parts.size_at(first));
      block.a = shared + part_at(left, first);
      block.b = panels_.get() + pairs_of(out_) * 2 * (first / kTileInner) * kTileSize +
                begin * 2 * tiles * kTileSize;
      block.tiles = tiles;
      block.beta = first == 0 ? 0 : 1;
      kernels_.multiply(block);
    }
    kernels_.stop();
  });
}

const Bf16Kernels* fastest_bf16_kernels() {
  (void)cpu_backend();  // sets limits that the answer depends on
  const Bf16Kernels* amx = may_use_amx() ? bf16_kernels(Bf16Unit::kAmx) : nullptr;
  if (amx != nullptr) return amx;
  return may_use_avx512_bf16() ? bf16_kernels(Bf16Unit::kAvx512) : nullptr;
}

}  // namespace reigen::cpu

namespace reigen {

uint64_t bf16_products_bytes(int64_t outer, int64_t inner, int threads) {
  using namespace cpu;
  const int64_t most_inner = std::min(tiles_of(inner) * kTileInner, kPartsAtOnce * kMostInner);
  const int64_t own = threads * kPairsAtOnce * kPairOuter * kMostInner;
  const int64_t elements = pairs_of(outer) * kPairOuter * most_inner + own;
  return sizeof(uint16_t) * static_cast<uint64_t>(elements);
}

}  // namespace reigen
