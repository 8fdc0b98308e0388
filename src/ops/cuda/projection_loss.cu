// The cross-entropy kernel gives a block one row and holds it in registers as 16-bit numbers, so
// logits are read once and their gradient written once: 1.4 GB each way for the base step.
//
// Logits of a chunk are 16-bit, as a product writes them, and are overwritten by their gradient.
// The gradient is also multiplied by the context's settings and loss scale (step.h), and the sums
// stay on the GPU, so that the host waits only where the caller wants them. A target of kNoToken
// (embed.h) contributes nothing.
#include <algorithm>
#include <vector>

#include "ops/cuda/backend.h"
#include "ops/cuda/embed.h"
#include "ops/cuda/kernel_support.cuh"
#include "ops/cuda/matmul.h"

namespace reigen::cuda {
namespace {

constexpr int kThreads = 512;
constexpr float kLog2e = 1.4426950408889634F;

struct Args {
  void* logits;
  const uint32_t* targets;
  float* losses;  // [rows, 2]: smoothed, nll
  int64_t stride;
  int vocabulary;
  float smoothing;
  float scale;
  const StepSettings* settings;
  const StepControl* control;

  __device__ float gradient_scale() const {
    return static_cast<float>(settings->per_token * control->loss_scale *
                              static_cast<double>(scale));
  }
};

// A partial sum of a softmax, sum of 2^(x - top). Two of them can be joined.
struct Part {
  float top;
  float sum;
  float plain;  // of the logits themselves, for smoothing
};

__device__ inline Part join(Part a, Part b) {
  const float top = fmaxf(a.top, b.top);
  // No element yet on either side: -inf - -inf would be NaN.
  if (top == -INFINITY) return {top, 0, a.plain + b.plain};
  return {top, a.sum * fast_exp2(a.top - top) + b.sum * fast_exp2(b.top - top), a.plain + b.plain};
}

__device__ Part block_join(Part mine) {
  __shared__ Part parts[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    Part other;
    other.top = __shfl_xor_sync(0xFFFFFFFFu, mine.top, step);
    other.sum = __shfl_xor_sync(0xFFFFFFFFu, mine.sum, step);
    other.plain = __shfl_xor_sync(0xFFFFFFFFu, mine.plain, step);
    mine = join(mine, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  Part all = parts[0];
  for (int w = 1; w < kThreads / 32; ++w) all = join(all, parts[w]);
  return all;
}

// Eight logits; past the vocabulary they count as -inf (and 0 in plain sums).
__device__ inline void mask_tail(Eight& x, int first, int vocabulary) {
  if (first + 8 <= vocabulary) return;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (first + j >= vocabulary) x.v[j] = -INFINITY;
  }
}

__device__ inline Part part_of(const Eight* x, int count) {
  float top = -INFINITY;
  float plain = 0;
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      top = fmaxf(top, x[i].v[j]);
      plain += x[i].v[j] == -INFINITY ? 0.0F : x[i].v[j];
    }
  }
  return {top * kLog2e, 0, plain};
}

// The gradient of eight logits, given the log (base 2) of the row's sum.
__device__ inline Eight gradient_of(const Eight& x, float log_sum, float scale, float smoothing,
                                    float even, int first, uint32_t target) {
  Eight out;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float g = scale * fast_exp2(fmaf(x.v[j], kLog2e, -log_sum)) - even;
    if (static_cast<uint32_t>(first + j) == target) g -= scale * (1 - smoothing);
    out.v[j] = g;
  }
  return out;
}

__device__ inline void write_losses(const Args& a, Part all, float log_sum, float target_logit) {
  if (threadIdx.x != 0) return;
  const float natural = log_sum / kLog2e;
  const float nll = natural - target_logit;
  const float mean = all.plain / static_cast<float>(a.vocabulary);
  a.losses[2 * blockIdx.x] = (1 - a.smoothing) * nll + a.smoothing * (natural - mean);
  a.losses[2 * blockIdx.x + 1] = nll;
}

template <class T>
__device__ inline void clear_row(T* row, int vectors) {
  for (int v = static_cast<int>(threadIdx.x); v < vectors; v += kThreads) {
    store8(row + v * 8, zero8());
  }
}

#if __CUDA_ARCH__ >= 800
__device__ inline uint32_t max2(uint32_t a, uint32_t b, bf16) {
  const __nv_bfloat162 m =
      __hmax2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&m);
}
__device__ inline uint32_t max2(uint32_t a, uint32_t b, __half) {
  const __half2 m = __hmax2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&m);
}
#else  // these chips have no such instruction
template <class T>
__device__ inline uint32_t max2(uint32_t a, uint32_t b, T) {
  const float2 x = unpack2(a, T());
  const float2 y = unpack2(b, T());
  return pack2(fmaxf(x.x, y.x), fmaxf(x.y, y.y), T());
}
#endif

// 16-bit rows of up to 8 kVecs kThreads logits, packed in registers. Elements past the vocabulary
// are -inf; a whole number of vectors (kWhole) has none.
template <class T, int kVecs, bool kGradient, bool kWhole>
__global__ __launch_bounds__(kThreads, kVecs <= 8 ? 2 : 1) void registers_kernel(const Args a) {
  T* row = static_cast<T*>(a.logits) + static_cast<int64_t>(blockIdx.x) * a.stride;
  const int vectors = (a.vocabulary + 7) / 8;
  const uint32_t target = a.targets[blockIdx.x];
  if (target == kNoToken) {
    if (threadIdx.x == 0) a.losses[2 * blockIdx.x] = a.losses[2 * blockIdx.x + 1] = 0;
    if (kGradient) clear_row(row, vectors);
    return;
  }
  const uint32_t nothing = pack2(-INFINITY, -INFINITY, T());
  uint4 values[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    values[i] = {nothing, nothing, nothing, nothing};
    if (v < vectors) values[i] = *reinterpret_cast<const uint4*>(row + v * 8);
    if (!kWhole && v == vectors - 1) {
      Eight x = unpack8<T>(values[i]);
      mask_tail(x, v * 8, a.vocabulary);
      values[i] = pack8<T>(x);
    }
  }
  const float target_logit = static_cast<float>(row[target]);
  uint32_t top2 = nothing;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    top2 = max2(top2,
                max2(max2(values[i].x, values[i].y, T()), max2(values[i].z, values[i].w, T()), T()),
                T());
  }
  const float2 tops = unpack2(top2, T());
  Part mine{fmaxf(tops.x, tops.y) * kLog2e, 0, 0};
  // A thread without elements must not subtract infinities.
  const float shift = mine.top == -INFINITY ? 0.0F : mine.top;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const Eight x = unpack8<T>(values[i]);
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    const bool inside = kWhole ? v < vectors : (v + 1) * 8 <= a.vocabulary;
#pragma unroll
    for (int j = 0; j < 8; ++j) mine.sum += fast_exp2(fmaf(x.v[j], kLog2e, -shift));
    if (inside) {
#pragma unroll
      for (int j = 0; j < 8; ++j) mine.plain += x.v[j];
    } else if (v == vectors - 1) {
#pragma unroll
      for (int j = 0; j < 8; ++j) mine.plain += x.v[j] == -INFINITY ? 0.0F : x.v[j];
    }
  }
  const Part all = block_join(mine);
  const float log_sum = all.top + log2f(all.sum);
  write_losses(a, all, log_sum, target_logit);
  if constexpr (!kGradient) return;
  const float scale = a.gradient_scale();
  const float even = scale * a.smoothing / static_cast<float>(a.vocabulary);
  // scale * p as one power of two: 2^(x log2 e - log_sum + log2 scale).
  const float offset = log2f(scale) - log_sum;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    if (v >= vectors) continue;
    Eight x = unpack8<T>(values[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) x.v[j] = fast_exp2(fmaf(x.v[j], kLog2e, offset)) - even;
    if (static_cast<uint32_t>(v) == target / 8) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (static_cast<uint32_t>(j) == target % 8) x.v[j] -= scale * (1 - a.smoothing);
      }
    }
    store8(row + v * 8, x);
  }
}

// Any type and vocabulary: the row is read again for each of the passes.
template <class T, bool kGradient>
__global__ __launch_bounds__(kThreads) void streamed_kernel(const Args a) {
  T* row = static_cast<T*>(a.logits) + static_cast<int64_t>(blockIdx.x) * a.stride;
  const int vectors = (a.vocabulary + 7) / 8;
  const uint32_t target = a.targets[blockIdx.x];
  if (target == kNoToken) {
    if (threadIdx.x == 0) a.losses[2 * blockIdx.x] = a.losses[2 * blockIdx.x + 1] = 0;
    if (kGradient) clear_row(row, vectors);
    return;
  }
  const float target_logit = static_cast<float>(row[target]);
  Part mine{-INFINITY, 0, 0};
  for (int v = static_cast<int>(threadIdx.x); v < vectors; v += kThreads) {
    Eight x = load8(static_cast<const T*>(row) + v * 8);
    mask_tail(x, v * 8, a.vocabulary);
    Part part = part_of(&x, 1);
#pragma unroll
    for (int j = 0; j < 8; ++j) part.sum += fast_exp2(fmaf(x.v[j], kLog2e, -part.top));
    mine = join(mine, part);
  }
  const Part all = block_join(mine);
  const float log_sum = all.top + log2f(all.sum);
  write_losses(a, all, log_sum, target_logit);
  if constexpr (!kGradient) return;
  const float scale = a.gradient_scale();
  const float even = scale * a.smoothing / static_cast<float>(a.vocabulary);
  for (int v = static_cast<int>(threadIdx.x); v < vectors; v += kThreads) {
    const Eight x = load8(static_cast<const T*>(row) + v * 8);
    store8(row + v * 8, gradient_of(x, log_sum, scale, a.smoothing, even, v * 8, target));
  }
}

// One block adds the losses of all tokens in a fixed order.
__global__ __launch_bounds__(1024) void loss_sums_kernel(const float* losses, int tokens,
                                                         double* sums) {
  __shared__ double parts[2][1024];
  double smoothed = 0;
  double nll = 0;
  for (int t = static_cast<int>(threadIdx.x); t < tokens; t += 1024) {
    smoothed += static_cast<double>(losses[2 * t]);
    nll += static_cast<double>(losses[2 * t + 1]);
  }
  parts[0][threadIdx.x] = smoothed;
  parts[1][threadIdx.x] = nll;
  for (unsigned step = 512; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      parts[0][threadIdx.x] += parts[0][threadIdx.x + step];
      parts[1][threadIdx.x] += parts[1][threadIdx.x + step];
    }
  }
  if (threadIdx.x == 0) {
    sums[0] += parts[0][0];
    sums[1] += parts[1][0];
  }
}

template <class T, bool kGradient>
void launch(const Context& context, const Args& a, unsigned rows) {
  const cudaStream_t stream = context.stream();
  if constexpr (sizeof(T) == 2) {
    const int per_vector = 8 * kThreads;
    const int vectors = (a.vocabulary + per_vector - 1) / per_vector;
    auto in_registers = [&](auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      const auto kernel = a.vocabulary % 8 == 0 ? registers_kernel<T, kVecs, kGradient, true>
                                                : registers_kernel<T, kVecs, kGradient, false>;
      kernel<<<rows, kThreads, 0, stream>>>(a);
    };
    if (vectors <= 1) return in_registers(std::integral_constant<int, 1>());
    if (vectors <= 2) return in_registers(std::integral_constant<int, 2>());
    if (vectors <= 4) return in_registers(std::integral_constant<int, 4>());
    if (vectors <= 8) return in_registers(std::integral_constant<int, 8>());
    if (vectors <= 16) return in_registers(std::integral_constant<int, 16>());
  }
  streamed_kernel<T, kGradient><<<rows, kThreads, 0, stream>>>(a);
}

}  // namespace

LossSums CudaBackend::projection_loss(const Device& device, const ProjectionLoss& op,
                                      Arena& arena) {
  const int64_t tokens = op.hidden.rows;
  const bool gradient = !op.dhidden.empty();
  const int64_t most =
      std::min(op.chunk > 0 ? op.chunk : projection_loss_chunk(device.kind()), tokens);
  const Arena::Mark mark = arena.mark();
  // Rounding a logit to 16 bits does not hurt training; a reported loss is computed in fp32.
  const Tensor logits =
      arena.matrix(most, (op.table.rows + 7) / 8 * 8, gradient ? op.hidden.dtype : DType::kF32);
  float* losses = arena.matrix(tokens, 2).row(0);  // smoothed and nll of each token
  LossSums* sums = op.sums != nullptr ? op.sums : loss_sums_.as<LossSums>();
  if (op.sums == nullptr) gpu_->clear(sums, sizeof(LossSums));
  const int64_t chunks = tokens == 0 ? 0 : (tokens + most - 1) / most;
  // Equal chunks: the products of all but the last have the same shape.
  const int64_t chunk = chunks == 0 ? 0 : (tokens + chunks - 1) / chunks;
  for (int64_t first = 0; first < tokens; first += chunk) {
    const int64_t count = std::min(chunk, tokens - first);
    const Tensor hidden = op.hidden.rows_from(first, count);
    Tensor z = logits.rows_from(0, count);
    z.cols = op.table.rows;
    linear_forward(context_, hidden, op.table, z);
    // The bias is read, and the columns beyond the vocabulary written, by eights: parameters and
    // logits are padded.
    if (!op.bias.empty()) add_bias(device, logits.rows_from(0, count), op.bias);
    Args a{};
    a.logits = z.data;
    a.targets = op.targets.data() + first;
    a.losses = losses + 2 * first;
    a.stride = z.stride;
    a.vocabulary = static_cast<int>(z.cols);
    a.smoothing = op.smoothing;
    a.scale = op.scale;
    a.settings = context_.settings();
    a.control = context_.control();
    with_type(z.dtype, [&](auto t) {
      if (gradient) return launch<decltype(t), true>(context_, a, static_cast<unsigned>(count));
      launch<decltype(t), false>(context_, a, static_cast<unsigned>(count));
    });
    check_launch("projection_loss");
    if (!gradient) continue;
    linear_backward_input(context_, z, op.table, op.dhidden.rows_from(first, count), false);
    linear_backward_weight(context_, z, hidden, op.dtable);
    if (!op.dbias.empty()) bias_backward(device, z, op.dbias);
  }
  loss_sums_kernel<<<1, 1024, 0, context_.stream()>>>(losses, static_cast<int>(tokens),
                                                      &sums->smoothed);
  check_launch("projection_loss");
  if (op.token_nll != nullptr) {
    std::vector<float> both(static_cast<size_t>(2 * tokens));
    gpu_->download(both.data(), losses, both.size() * sizeof(float));
    for (size_t t = 0; t < static_cast<size_t>(tokens); ++t) op.token_nll[t] = both[2 * t + 1];
  }
  arena.release(mark);
  LossSums out;
  if (op.sums == nullptr) gpu_->download(&out, sums, sizeof(out));
  return out;
}

}  // namespace reigen::cuda
