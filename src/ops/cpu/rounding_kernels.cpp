// Products in 8 bits: rows rounded to u8, products with s8 where no library has them, and the sums
// turned back into fp32. Rounding to bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rounding_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants its own order of includes from here on.
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "ops/cpu/vector_inl.h"

HWY_BEFORE_NAMESPACE();
namespace reigen::cpu::HWY_NAMESPACE {

using I32 = hn::ScalableTag<int32_t>;
using I16 = hn::ScalableTag<int16_t>;

// A row whose values differ by less is taken for zeros: 1 / scale must be finite.
constexpr float kLeastRange = 1e-30F;

RowScale QuantizeRow(const float* x, size_t n, uint8_t* out) {
  const Row row(n);
  Vec low = hn::Zero(row.d);  // 0 is in the range, so that it is exact
  Vec high = hn::Zero(row.d);
  Vec sum = hn::Zero(row.d);  // not finite where a value is not
  for (size_t i = 0; i < n; i += row.lanes) {
    const Vec v = row.load(x, i);
    low = hn::Min(low, v);
    high = hn::Max(high, v);
    sum = hn::Add(sum, v);
  }
  const float least = hn::GetLane(hn::MinOfLanes(row.d, low));
  const float range = hn::GetLane(hn::MaxOfLanes(row.d, high)) - least;
  RowScale scale;
  const bool finite = std::isfinite(sum_lanes(sum)) && std::isfinite(range);
  if (!finite) scale.scale = std::numeric_limits<float>::quiet_NaN();
  if (!finite || range < kLeastRange) {
    std::fill_n(out, n, uint8_t{0});
    return scale;
  }
  scale.scale = range / 255;
  const float inverse = 255 / range;
  scale.zero = static_cast<int32_t>(std::lround(-least * inverse));
  const Vec factor = hn::Set(row.d, inverse);
  const I32 di;
  const auto zero = hn::Set(di, scale.zero);
  const hn::Rebind<uint8_t, I32> bytes;
  size_t i = 0;
  for (; i + row.lanes <= n; i += row.lanes) {
    const auto q = hn::Add(hn::NearestInt(hn::Mul(hn::LoadU(row.d, x + i), factor)), zero);
    hn::StoreU(hn::DemoteTo(bytes, q), bytes, out + i);
  }
  if (i < n) {
    HWY_ALIGN_MAX uint8_t last[64];
    const auto q = hn::Add(hn::NearestInt(hn::Mul(row.load(x, i), factor)), zero);
    hn::StoreU(hn::DemoteTo(bytes, q), bytes, last);
    std::copy_n(last, n - i, out + i);
  }
  return scale;
}

void ScaleSums(const int32_t* sums, RowScale x, const int32_t* weight_sums,
               const float* weight_scales, float* out, size_t n) {
  const F32 d;
  const I32 di;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Set(di, x.zero);
  const Vec scale = hn::Set(d, x.scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto offset = hn::Mul(zero, hn::LoadU(di, weight_sums + i));
    const auto product = hn::Sub(hn::LoadU(di, sums + i), offset);
    const Vec factor = hn::Mul(scale, hn::LoadU(d, weight_scales + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, product), factor), d, out + i);
  }
  for (; i < n; ++i) {
    const int32_t product = sums[i] - x.zero * weight_sums[i];
    out[i] = static_cast<float>(product) * (x.scale * weight_scales[i]);
  }
}

void ScaleInt8Row(const int8_t* in, float scale, const float* add, float* out, size_t n) {
  const F32 d;
  const I32 di;
  const hn::Rebind<int8_t, I32> bytes;
  const size_t lanes = hn::Lanes(d);
  const Vec factor = hn::Set(d, scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec v = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes, in + i)));
    hn::StoreU(hn::MulAdd(factor, v, hn::LoadU(d, add + i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = std::fma(scale, static_cast<float>(in[i]), add[i]);
}

// To the nearest, ties to even, as a GPU rounds; NaN stays NaN. The upper 16 bits are the result.
HWY_INLINE hn::Vec<U32> UpperBf16(Vec v) {
  const U32 du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto near = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto nan = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, near);
}

void RoundToBf16(const float* in, uint16_t* out, size_t n) {
  const F32 d;
  const hn::Rebind<uint16_t, F32> half;
  const size_t lanes = hn::Lanes(d);
  auto rounded = [&](Vec v) {
    return hn::DemoteTo(half, hn::BitCast(I32(), hn::ShiftRight<16>(UpperBf16(v))));
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(rounded(hn::LoadU(d, in + i)), half, out + i);
  if (i < n) {
    HWY_ALIGN_MAX uint16_t last[64];
    hn::StoreU(rounded(Row(n).load(in, i)), half, last);
    std::copy_n(last, n - i, out + i);
  }
}

void RoundToWideBf16(const float* in, float* out, size_t n) {
  const U32 du;
  const Row row(n);
  const auto upper = hn::Set(du, 0xFFFF0000U);
  for (size_t i = 0; i < n; i += row.lanes) {
    row.store(hn::BitCast(row.d, hn::And(UpperBf16(row.load(in, i)), upper)), out, i);
  }
}

// kRows rows of x times two rows of the weight.
template <size_t kRows>
HWY_INLINE void DotTile(const uint8_t* x, size_t x_stride, const int8_t* w, size_t w_stride,
                        size_t n, int32_t* out, size_t out_stride) {
  const I32 d;
  const I16 half;
  const hn::Rebind<uint8_t, I16> unsigned_bytes;
  const hn::Rebind<int8_t, I16> signed_bytes;
  const size_t lanes = hn::Lanes(half);
  hn::Vec<I32> low[kRows][2];
  hn::Vec<I32> high[kRows][2];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < 2; ++c) low[r][c] = high[r][c] = hn::Zero(d);
  }
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto w0 = hn::PromoteTo(half, hn::LoadU(signed_bytes, w + i));
    const auto w1 = hn::PromoteTo(half, hn::LoadU(signed_bytes, w + w_stride + i));
    for (size_t r = 0; r < kRows; ++r) {
      const auto v = hn::PromoteTo(half, hn::LoadU(unsigned_bytes, x + r * x_stride + i));
      low[r][0] = hn::ReorderWidenMulAccumulate(d, v, w0, low[r][0], high[r][0]);
      low[r][1] = hn::ReorderWidenMulAccumulate(d, v, w1, low[r][1], high[r][1]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      int32_t sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low[r][c], high[r][c])));
      for (size_t j = i; j < n; ++j) {
        sum += static_cast<int32_t>(x[r * x_stride + j]) * w[c * w_stride + j];
      }
      out[r * out_stride + c] = sum;
    }
  }
}

void Int8Dots(const Int8Task& t) {
  size_t c = 0;
  for (; c + 2 <= t.outputs; c += 2) {
    const int8_t* w = t.weight + c * t.inner;
    size_t r = 0;
    for (; r + 4 <= t.rows; r += 4) {
      DotTile<4>(t.x + r * t.inner, t.inner, w, t.inner, t.inner, t.sums + r * t.sums_stride + c,
                 t.sums_stride);
    }
    for (; r < t.rows; ++r) {
      DotTile<1>(t.x + r * t.inner, t.inner, w, t.inner, t.inner, t.sums + r * t.sums_stride + c,
                 t.sums_stride);
    }
  }
  for (; c < t.outputs; ++c) {
    for (size_t r = 0; r < t.rows; ++r) {
      int32_t sum = 0;
      for (size_t j = 0; j < t.inner; ++j) {
        sum += static_cast<int32_t>(t.x[r * t.inner + j]) * t.weight[c * t.inner + j];
      }
      t.sums[r * t.sums_stride + c] = sum;
    }
  }
}

}  // namespace reigen::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reigen::cpu {

HWY_EXPORT(QuantizeRow);
HWY_EXPORT(ScaleSums);
HWY_EXPORT(ScaleInt8Row);
HWY_EXPORT(RoundToBf16);
HWY_EXPORT(RoundToWideBf16);
HWY_EXPORT(Int8Dots);

RowScale quantize_row(const float* x, size_t n, uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(QuantizeRow)(x, n, out);
}
void scale_sums(const int32_t* sums, RowScale x, const int32_t* weight_sums,
                const float* weight_scales, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(ScaleSums)(sums, x, weight_sums, weight_scales, out, n);
}
void scale_int8_row(const int8_t* in, float scale, const float* add, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(ScaleInt8Row)(in, scale, add, out, n);
}
void round_to_bf16(const float* in, uint16_t* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(RoundToBf16)(in, out, n);
}
void round_to_bf16(const float* in, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(RoundToWideBf16)(in, out, n);
}
void int8_dots(const Int8Task& task) { HWY_DYNAMIC_DISPATCH(Int8Dots)(task); }

}  // namespace reigen::cpu
#endif
