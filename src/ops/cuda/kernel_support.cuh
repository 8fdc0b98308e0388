// Shared by the kernels: eight elements at a time, warp sums, and Philox dropout.
//
// Eight is the unit everywhere: 16 bytes of a 16-bit type, and one Philox counter
// (tensor/philox.h). Widths are therefore multiples of eight on this device.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "device/cuda/numbers.cuh"
#include "ops/cuda/context.h"
#include "ops/dropout.h"
#include "tensor/philox.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

using bf16 = __nv_bfloat16;

// Calls f with a value of the element type; f is a generic lambda that looks only at the type.
template <class F>
void with_type(DType dtype, F f) {
  if (dtype == DType::kBF16) return f(bf16());
  if (dtype == DType::kF16) return f(__half());
  f(float());
}

inline void require(bool condition, const char* what) {
  if (!condition) throw DeviceError(std::string("a CUDA operation needs ") + what);
}

template <class T>
T* data_of(const Tensor& t) {
  return static_cast<T*>(t.data);
}

// ---- eight elements -----------------------------------------------------------------------------

struct Eight {
  float v[8];
};

__device__ inline float2 unpack2(uint32_t bits, bf16) {
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000u)};
}
__device__ inline float2 unpack2(uint32_t bits, __half) {
  return __half22float2(*reinterpret_cast<__half2*>(&bits));
}
__device__ inline uint32_t pack2(float low, float high, bf16) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}
__device__ inline uint32_t pack2(float low, float high, __half) {
  __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}

template <class T>
__device__ inline Eight unpack8(uint4 raw) {
  Eight out;
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 pair = unpack2(words[i], T());
    out.v[2 * i] = pair.x;
    out.v[2 * i + 1] = pair.y;
  }
  return out;
}

template <class T>
__device__ inline uint4 pack8(const Eight& e) {
  return {pack2(e.v[0], e.v[1], T()), pack2(e.v[2], e.v[3], T()), pack2(e.v[4], e.v[5], T()),
          pack2(e.v[6], e.v[7], T())};
}

template <class T>
__device__ inline Eight load8(const T* p) {
  return unpack8<T>(*reinterpret_cast<const uint4*>(p));
}
template <>
__device__ inline Eight load8<float>(const float* p) {
  float4 a = reinterpret_cast<const float4*>(p)[0];
  float4 b = reinterpret_cast<const float4*>(p)[1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

// Numbers that are not written while the kernel runs: their loads may move across stores.
__device__ inline Eight load8_fixed(const float* p) {
  float4 a = __ldg(reinterpret_cast<const float4*>(p));
  float4 b = __ldg(reinterpret_cast<const float4*>(p) + 1);
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

template <class T>
__device__ inline void store8(T* p, const Eight& e) {
  *reinterpret_cast<uint4*>(p) = pack8<T>(e);
}
template <>
__device__ inline void store8<float>(float* p, const Eight& e) {
  reinterpret_cast<float4*>(p)[0] = {e.v[0], e.v[1], e.v[2], e.v[3]};
  reinterpret_cast<float4*>(p)[1] = {e.v[4], e.v[5], e.v[6], e.v[7]};
}

// Eight elements as they lie in memory: packed like this, a row takes half the registers.
template <class T>
struct Raw8 {
  uint4 bits;
};
template <>
struct Raw8<float> {
  float4 low, high;
};
template <class T>
__device__ inline Raw8<T> load_raw(const T* p) {
  return *reinterpret_cast<const Raw8<T>*>(p);
}
template <class T>
__device__ inline Eight unpack(const Raw8<T>& raw) {
  return unpack8<T>(raw.bits);
}
template <>
__device__ inline Eight unpack<float>(const Raw8<float>& raw) {
  return {raw.low.x,  raw.low.y,  raw.low.z,  raw.low.w,
          raw.high.x, raw.high.y, raw.high.z, raw.high.w};
}

template <class T>
__device__ inline Raw8<T> pack(const Eight& e) {
  return {pack8<T>(e)};
}
template <>
__device__ inline Raw8<float> pack<float>(const Eight& e) {
  return {{e.v[0], e.v[1], e.v[2], e.v[3]}, {e.v[4], e.v[5], e.v[6], e.v[7]}};
}

// 2^x by the hardware instruction: accurate but for two bits, tiny results become 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline Eight zero8() { return {0, 0, 0, 0, 0, 0, 0, 0}; }

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
  return x;
}

// ---- dropout ------------------------------------------------------------------------------------

// Dropout as a kernel argument: everything but the token, the element and the step. The step is the
// context's (step.h), not dropout.site's.
struct DropArgs {
  uint32_t key0 = 0;
  uint32_t key1 = 0;
  uint32_t site = 0;       // in the upper half, as in philox_counter
  uint32_t threshold = 0;  // 0: no dropout
  float scale = 1;
  const uint64_t* tokens = nullptr;  // on the device
  const StepSettings* settings = nullptr;
};

inline DropArgs drop_args(const Context& context, const Dropout& dropout) {
  DropArgs args;
  if (!dropout.active()) return args;
  RandomSite site = dropout.site;
  site.step = 0;
  auto key = philox_key(site);
  args.key0 = key[0];
  args.key1 = key[1];
  args.site = philox_counter(site, 0, 0)[2];
  args.threshold = drop_threshold(dropout.rate);
  args.scale = dropout.scale();
  args.tokens = dropout.tokens;
  args.settings = context.settings();
  return args;
}

// Dropout once a kernel knows the step; computed once, by whole warps, before lanes diverge.
struct Drop {
  uint32_t key0;
  uint32_t key1;
  uint32_t site;
  uint32_t step;
  uint32_t threshold;
  float scale;
};

template <bool kDrop = true>
__device__ inline Drop drop_of(const DropArgs& a) {
  Drop d{a.key0, a.key1, a.site, 0, a.threshold, a.scale};
  if (!kDrop || a.threshold == 0) return d;
  const uint64_t step = a.settings->step;
  d.step = static_cast<uint32_t>(step);
  d.key1 ^= static_cast<uint32_t>(step >> 32);
#if __CUDA_ARCH__ >= 800
  // The same in all lanes. With this the compiler knows it and computes the round keys once for
  // the warp and not in each lane.
  d.key1 = __reduce_or_sync(0xFFFFFFFFu, d.key1);
#endif
  return d;
}

__device__ inline uint4 philox_words(const Drop& d, uint64_t token, uint32_t block) {
  uint32_t c0 = block;
  uint32_t c1 = static_cast<uint32_t>(token);
  uint32_t c2 = d.site | static_cast<uint32_t>(token >> 32);
  uint32_t c3 = d.step;
  uint32_t key0 = d.key0;
  uint32_t key1 = d.key1;
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<uint32_t>(product1);
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Multiplies eight neighbouring elements by their factors (0 or scale).
__device__ inline void drop8(const Drop& d, uint64_t token, uint32_t block, Eight& e) {
  const uint4 words = philox_words(d, token, block);
  const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // Both halves are compared in the upper half of a word; the lower half does not matter there.
    e.v[2 * i] *= w[i] << 16 < d.threshold << 16 ? 0.0F : d.scale;
    e.v[2 * i + 1] *= w[i] < d.threshold << 16 ? 0.0F : d.scale;
  }
}

// Bit i is set when element i of the eight is kept. A sum with 65,536 - threshold carries into bit
// 16 exactly then.
__device__ inline uint32_t keep_bits(const Drop& d, uint64_t token, uint32_t block) {
  const uint4 words = philox_words(d, token, block);
  const uint32_t w[4] = {words.x, words.y, words.z, words.w};
  const uint32_t rest = 0x10000u - d.threshold;
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bits |= (((w[i] & 0xFFFFu) + rest) >> 16) << (2 * i);
    bits |= (((w[i] >> 16) + rest) >> 16) << (2 * i + 1);
  }
  return bits;
}

}  // namespace reigen::cuda
