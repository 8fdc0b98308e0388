#include <algorithm>
#include <cstdint>

#include "device/cuda/numbers.cuh"
#include "dist/group/nccl/wire_kernels.h"

namespace reigen::nccl {
namespace {

constexpr int kThreads = 256;

__device__ void narrow(float x, __nv_bfloat16& out) { out = __float2bfloat16_rn(x); }
__device__ void narrow(float x, __half& out) { out = __float2half_rn(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(float x) { return x; }

template <class T>
__global__ void to_wire_kernel(const float* values, size_t count, T* out) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    narrow(values[i], out[i]);
  }
}

template <class T>
__global__ void from_wire_kernel(const T* in, size_t count, float* values) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    values[i] = widen(in[i]);
  }
}

template <class T>
__global__ void sum_addends_kernel(const T* addends, int ranks, size_t count, float* sum) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    float total = 0;
    for (int r = 0; r < ranks; ++r) total += widen(addends[r * count + i]);
    sum[i] = total;
  }
}

unsigned blocks_for(size_t count) {
  constexpr size_t kMost = 1024;
  return static_cast<unsigned>(std::clamp<size_t>(count / kThreads, 1, kMost));
}

}  // namespace

void to_wire(Wire wire, const float* values, size_t count, void* out, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count);
  if (wire == Wire::kBf16) {
    to_wire_kernel<<<blocks, kThreads, 0, stream>>>(values, count,
                                                    static_cast<__nv_bfloat16*>(out));
  } else {
    to_wire_kernel<<<blocks, kThreads, 0, stream>>>(values, count, static_cast<__half*>(out));
  }
  cuda::check_launch("to_wire");
}

void from_wire(Wire wire, const void* in, size_t count, float* values, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count);
  if (wire == Wire::kBf16) {
    from_wire_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(in), count,
                                                      values);
  } else {
    from_wire_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const __half*>(in), count,
                                                      values);
  }
  cuda::check_launch("from_wire");
}

void sum_addends(Wire wire, const void* addends, int ranks, size_t count, float* sum,
                 cudaStream_t stream) {
  const unsigned blocks = blocks_for(count);
  if (wire == Wire::kBf16) {
    sum_addends_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(addends),
                                                        ranks, count, sum);
  } else if (wire == Wire::kFp16) {
    sum_addends_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const __half*>(addends), ranks,
                                                        count, sum);
  } else {
    sum_addends_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(addends), ranks,
                                                        count, sum);
  }
  cuda::check_launch("sum_addends");
}

}  // namespace reigen::nccl
