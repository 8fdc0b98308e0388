// Arguments of the kernels of attention, and the functions by which attention.cu calls them.
#pragma once

#include "ops/cuda/attention/attention_layout.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {

struct AttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* log_sums;
  const void* dout;  // from here on only in backward
  void* dq;
  void* dk;
  void* dv;
  float* dots;  // scratch of attention_lanes.cu
  int64_t q_stride, k_stride, v_stride, out_stride, log_stride;
  int64_t dout_stride, dq_stride, dk_stride, dv_stride;
  int heads;
  int width;    // of a head
  float scale;  // of the scores: 1 / sqrt(width)
  bool causal;
  DropArgs drop;
};

constexpr float kLog2e = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

// Pointers to one head of one sentence.
template <class T>
struct Head {
  const T* q;
  const T* k;
  const T* v;
  int queries;
  int keys;
  uint32_t head;
  int64_t first_query;

  __device__ Head(const AttentionArgs& a, const AttentionWork& w, uint32_t which, int width)
      : q(static_cast<const T*>(a.q) + w.first_query * a.q_stride + which * width),
        k(static_cast<const T*>(a.k) + w.first_key * a.k_stride + which * width),
        v(static_cast<const T*>(a.v) + w.first_key * a.v_stride + which * width),
        queries(static_cast<int>(w.queries)),
        keys(static_cast<int>(w.keys)),
        head(which),
        first_query(w.first_query) {}
};

// Work without heads is empty, or rows past the last sentence that must be cleared.
template <class T>
__device__ inline void clear_rows(T* data, int64_t stride, uint32_t first, uint32_t rows,
                                  int columns) {
  const uint32_t vectors = static_cast<uint32_t>(columns) / 8;
  for (uint32_t i = threadIdx.x; i < rows * vectors; i += blockDim.x) {
    store8(data + (first + i / vectors) * stride + i % vectors * 8, zero8());
  }
}
template <class T>
__device__ inline void clear_forward(const AttentionArgs& a, const AttentionWork& w) {
  clear_rows(static_cast<T*>(a.out), a.out_stride, w.first_query, w.queries, a.heads * a.width);
}
template <class T>
__device__ inline void clear_backward(const AttentionArgs& a, const AttentionWork& w) {
  const int columns = a.heads * a.width;
  clear_rows(static_cast<T*>(a.dq), a.dq_stride, w.first_query, w.queries, columns);
  clear_rows(static_cast<T*>(a.dk), a.dk_stride, w.first_key, w.keys, columns);
  clear_rows(static_cast<T*>(a.dv), a.dv_stride, w.first_key, w.keys, columns);
}

void tiled_attention_forward(const Context& context, DType dtype, const AttentionArgs& args,
                             const AttentionPlan& plan);
void tiled_attention_backward(const Context& context, DType dtype, const AttentionArgs& args,
                              const AttentionPlan& plan);
void lanes_attention_forward(const Context& context, DType dtype, const AttentionArgs& args,
                             const AttentionPlan& plan);
void lanes_attention_backward(const Context& context, DType dtype, const AttentionArgs& args,
                              const AttentionPlan& plan);

// Calls f with (type, head width, causal, dropped) as constants, for the tensor-core kernels.
template <class F>
void with_attention_variant(DType dtype, const AttentionArgs& a, F f) {
  auto by_drop = [&](auto t, auto w, auto causal) {
    if (a.drop.threshold > 0) return f(t, w, causal, std::true_type());
    f(t, w, causal, std::false_type());
  };
  auto by_cause = [&](auto t, auto w) {
    if (a.causal) return by_drop(t, w, std::true_type());
    by_drop(t, w, std::false_type());
  };
  auto by_width = [&](auto t) {
    if (a.width == 32) return by_cause(t, std::integral_constant<int, 32>());
    if (a.width == 64) return by_cause(t, std::integral_constant<int, 64>());
    by_cause(t, std::integral_constant<int, 128>());
  };
  if (dtype == DType::kBF16) return by_width(bf16());
  by_width(__half());
}

}  // namespace reigen::cuda
