// Helpers shared by the vector kernels: rows of any length, and Philox in lanes. Included once per
// instruction set, inside a kernel file's HWY_NAMESPACE; see Highway's foreach_target.h.
#if defined(REIGEN_VECTOR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef REIGEN_VECTOR_INL
#undef REIGEN_VECTOR_INL
#else
#define REIGEN_VECTOR_INL
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "ops/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace reigen::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<uint32_t>;
using Vec = hn::Vec<F32>;

// Loads and stores at `i` of a row of `n`: past the end, lanes read 0 and are not written.
struct Row {
  F32 d;
  size_t n;
  size_t lanes = hn::Lanes(F32());

  explicit Row(size_t count) : n(count) {}
  Vec load(const float* p, size_t i) const {
    if (HWY_LIKELY(i + lanes <= n)) return hn::LoadU(d, p + i);
    return hn::MaskedLoad(hn::FirstN(d, n - i), d, p + i);
  }
  void store(Vec v, float* p, size_t i) const {
    if (HWY_LIKELY(i + lanes <= n)) {
      hn::StoreU(v, d, p + i);
    } else {
      hn::BlendedStore(v, hn::FirstN(d, n - i), d, p + i);
    }
  }
  // Lanes past the end become 0: for sums of values that are not 0 there.
  Vec inside(Vec v, size_t i) const {
    if (HWY_LIKELY(i + lanes <= n)) return v;
    return hn::IfThenElseZero(hn::FirstN(d, n - i), v);
  }
};

inline float sum_lanes(Vec v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

// 32 x 32 -> 64 bit products, high and low halves separate.
template <class V>
HWY_INLINE void multiply(V a, uint32_t constant, V& high, V& low) {
  const U32 d;
  const auto b = hn::Set(d, constant);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(
      hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(hn::RepartitionToWide<U32>(), a))), b);
  low = hn::Mul(a, b);
  const auto high_even = hn::ShiftRight<32>(even);
  const auto upper = hn::Set(hn::RepartitionToWide<U32>(), 0xFFFFFFFF00000000ull);
  high = hn::BitCast(d, hn::Or(high_even, hn::And(odd, upper)));
}

// Sixteen random bits for each of eight elements per block, for `blocks` blocks from `first`.
// Writes whole vectors of blocks: `out` needs room for 8 * (blocks rounded up to Lanes(U32())).
inline void random16(const RowDropout& dropout, uint32_t first, size_t blocks, uint32_t* out) {
  const U32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t b = 0; b < blocks; b += lanes) {
    auto c0 = hn::Iota(d, dropout.counter[0] + first + static_cast<uint32_t>(b));
    auto c1 = hn::Set(d, dropout.counter[1]);
    auto c2 = hn::Set(d, dropout.counter[2]);
    auto c3 = hn::Set(d, dropout.counter[3]);
    uint32_t key0 = dropout.key[0];
    uint32_t key1 = dropout.key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      hn::Vec<U32> high0, low0, high1, low1;
      multiply(c0, 0xD2511F53u, high0, low0);
      multiply(c2, 0xCD9E8D57u, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
      c1 = low1;
      c3 = low0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, out + 4 * b);
  }
}

// Factors (0 or scale) for the elements of a row, drawn a block at a time.
class DropFactors {
 public:
  static constexpr size_t kBlock = 512;  // elements

  explicit DropFactors(const RowDropout& dropout) : dropout_(dropout) {}

  bool active() const { return dropout_.threshold > 0; }

  // Factors of the elements at i, i+1, ...; `i` rises by whole vectors from 0.
  Vec at(size_t i) {
    if (i % kBlock == 0) {
      random16(dropout_, static_cast<uint32_t>(i / 8), kBlock / 8, bits_);
    }
    const U32 d;
    const hn::Rebind<uint16_t, U32> half;
    const auto* bits = reinterpret_cast<const uint16_t*>(bits_) + i % kBlock;
    const auto drawn = hn::PromoteTo(d, hn::LoadU(half, bits));
    const hn::RebindToSigned<U32> sd;
    const auto below = hn::Set(sd, static_cast<int32_t>(dropout_.threshold) - 1);
    const auto keep = hn::Gt(hn::BitCast(sd, drawn), below);
    const F32 f;
    return hn::IfThenElseZero(hn::RebindMask(f, keep), hn::Set(f, dropout_.scale));
  }

 private:
  RowDropout dropout_;
  HWY_ALIGN_MAX uint32_t bits_[kBlock / 2 + 64];
};

}  // namespace reigen::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
