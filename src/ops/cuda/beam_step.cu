// The best logits of each row and the log of its softmax's sum are found on the GPU, so that a few
// numbers per hypothesis are copied to the host and not the vocabulary; the host merges the rows of
// a sentence (merge_candidates.h).
//
// A block reads its row twice. In the first pass every thread finds its largest logit; the keep-th
// largest of those is a bound that at least `keep` logits reach and few others do. In the second
// pass the logits that reach it are gathered and sorted. Where there are too many (a row of equal
// logits), the bound is raised by bisection until they fit.
#include "ops/cuda/beam_step.h"

#include <algorithm>
#include <bit>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"
#include "ops/merge_candidates.h"

namespace reigen::cuda {
namespace {

constexpr int64_t kMostKept = 512;
constexpr int kThreads = 512;
constexpr int kAhead = 4;    // vectors in flight
constexpr int kRoom = 4096;  // candidates; about 3,000 random logits reach the bound of 512
constexpr float kLog2e = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

static_assert(kThreads >= kMostKept);

struct Args {
  const void* logits;
  int64_t stride;
  int vocabulary;
  int keep;
  int groups;  // of threads, whose largest logits give the bound: a power of two, at least keep
  TopLogit* tops;
  float* log_sums;
};

// Larger logits have larger keys, and lower tokens among equals: no two keys are the same.
__device__ inline uint64_t key_of(float logit, uint32_t token) {
  const uint32_t bits = __float_as_uint(logit + 0.0F);  // -0 is 0
  const uint32_t order = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFu : 0x80000000u);
  return uint64_t{order} << 32 | (0xFFFFFFFFu - token);
}
__device__ inline TopLogit of_key(uint64_t key) {
  const auto order = static_cast<uint32_t>(key >> 32);
  const uint32_t bits = order ^ ((order >> 31) != 0 ? 0x80000000u : 0xFFFFFFFFu);
  return {__uint_as_float(bits), 0xFFFFFFFFu - static_cast<uint32_t>(key)};
}

// Several vectors of eight in flight.
template <class T>
__device__ inline void load_ahead(const T* row, int vocabulary, int first, Raw8<T> (&raw)[kAhead]) {
#pragma unroll
  for (int n = 0; n < kAhead; ++n) {
    const int at = (first + n * kThreads) * 8;
    if (at < vocabulary) raw[n] = load_raw(row + at);
  }
}

// Calls f(logit, token) for this thread's share of the row.
template <class T, class F>
__device__ inline void for_logits(const T* row, int vocabulary, F f) {
  for (int first = static_cast<int>(threadIdx.x); first * 8 < vocabulary;
       first += kAhead * kThreads) {
    Raw8<T> raw[kAhead];
    load_ahead(row, vocabulary, first, raw);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int at = (first + n * kThreads) * 8;
      if (at >= vocabulary) return;
      const Eight x = unpack<T>(raw[n]);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (at + j < vocabulary) f(x.v[j], static_cast<uint32_t>(at + j));
      }
    }
  }
}

// Descending; `count` is a power of two.
template <class T>
__device__ void sort_shared(T* values, int count) {
  for (int size = 2; size <= count; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count / 2; i += kThreads) {
        const int low = 2 * i - (i & (step - 1));
        const int high = low + step;
        const T a = values[low];
        const T b = values[high];
        if ((a < b) == ((low & size) == 0)) {
          values[low] = b;
          values[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

struct Sum {
  float top;  // base 2
  float sum;
  bool finite;
};

__device__ inline Sum join(Sum a, Sum b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, 0, a.finite && b.finite};
  return {top, a.sum * fast_exp2(a.top - top) + b.sum * fast_exp2(b.top - top),
          a.finite && b.finite};
}

// This thread's largest logit, and its share of the softmax's sum.
template <class T>
__device__ float first_pass(const T* row, int vocabulary, Sum& sum) {
  float most = -INFINITY;
  for (int first = static_cast<int>(threadIdx.x); first * 8 < vocabulary;
       first += kAhead * kThreads) {
    Raw8<T> raw[kAhead];
    load_ahead(row, vocabulary, first, raw);
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int at = (first + n * kThreads) * 8;
      if (at >= vocabulary) break;
      Eight x = unpack<T>(raw[n]);
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (at + j >= vocabulary) {
          x.v[j] = -INFINITY;
        } else {
          sum.finite = sum.finite && isfinite(x.v[j]);
        }
        top = fmaxf(top, x.v[j]);
      }
      most = fmaxf(most, top);
      if (top == -INFINITY) continue;
      Sum part{top * kLog2e, 0, true};
#pragma unroll
      for (int j = 0; j < 8; ++j) part.sum += fast_exp2(fmaf(x.v[j], kLog2e, -part.top));
      sum = join(sum, part);
    }
  }
  return most;
}

__device__ void write_log_sum(Sum mine, float* to) {
  __shared__ Sum parts[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    Sum other;
    other.top = __shfl_xor_sync(0xFFFFFFFFu, mine.top, step);
    other.sum = __shfl_xor_sync(0xFFFFFFFFu, mine.sum, step);
    other.finite = __shfl_xor_sync(0xFFFFFFFFu, static_cast<int>(mine.finite), step) != 0;
    mine = join(mine, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) mine = join(mine, parts[w]);
  *to = mine.finite ? kLn2 * (mine.top + log2f(mine.sum)) : NAN;
}

// A bound that at least `keep` and at most kRoom keys of the row reach.
template <class T>
__device__ uint64_t bisect(const T* row, int vocabulary, int keep, int* count) {
  uint64_t low = 0;              // too many reach it
  uint64_t high = ~uint64_t{0};  // too few
  for (;;) {
    const uint64_t middle = low + (high - low) / 2;
    __syncthreads();
    if (threadIdx.x == 0) *count = 0;
    __syncthreads();
    int mine = 0;
    for_logits(row, vocabulary,
               [&](float x, uint32_t token) { mine += key_of(x, token) >= middle ? 1 : 0; });
    atomicAdd(count, mine);
    __syncthreads();
    const int found = *count;
    if (found > kRoom) {
      low = middle;
    } else if (found < keep) {
      high = middle;
    } else {
      return middle;
    }
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void top_kernel(const Args a) {
  __shared__ uint64_t keys[kRoom];
  __shared__ float bounds[kThreads];
  __shared__ int count;
  const T* row = static_cast<const T*>(a.logits) + blockIdx.x * a.stride;
  Sum sum{-INFINITY, 0, true};
  float most = first_pass(row, a.vocabulary, sum);
  const int group = kThreads / a.groups;
  for (int step = group / 2; step > 0; step /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, step));
  }
  if (static_cast<int>(threadIdx.x) % group == 0) {
    bounds[static_cast<int>(threadIdx.x) / group] = most;
  }
  if (threadIdx.x == 0) count = 0;
  write_log_sum(sum, a.log_sums + blockIdx.x);
  sort_shared(bounds, a.groups);
  const float bound = bounds[a.keep - 1];
  auto gather = [&](auto reached) {
    for_logits(row, a.vocabulary, [&](float x, uint32_t token) {
      if (!reached(x, token)) return;
      const int at = atomicAdd(&count, 1);
      if (at < kRoom) keys[at] = key_of(x, token);
    });
    __syncthreads();
  };
  gather([&](float x, uint32_t) { return x >= bound; });
  if (count > kRoom) {
    const uint64_t least = bisect(row, a.vocabulary, a.keep, &count);
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    gather([&](float x, uint32_t token) { return key_of(x, token) >= least; });
  }
  const int found = count;
  int size = 2;
  while (size < found) size *= 2;
  for (int i = found + static_cast<int>(threadIdx.x); i < size; i += kThreads) keys[i] = 0;
  sort_shared(keys, size);
  TopLogit* to = a.tops + static_cast<int64_t>(blockIdx.x) * a.keep;
  for (int i = static_cast<int>(threadIdx.x); i < a.keep; i += kThreads) {
    to[i] = i < found ? of_key(keys[i]) : TopLogit{-INFINITY, 0};
  }
}

}  // namespace

void top_rows(const Context& context, Tensor logits, int64_t keep, TopLogit* tops,
              float* log_sums) {
  if (logits.rows == 0) return;
  require(keep >= 1 && keep <= kMostKept, "from 1 to 512 logits to keep in top_rows");
  require(logits.stride % 8 == 0, "logits with a stride that is a multiple of 8");
  Args a{};
  a.logits = logits.data;
  a.stride = logits.stride;
  a.vocabulary = static_cast<int>(logits.cols);
  a.keep = static_cast<int>(keep);
  // Four groups per candidate make a bound that few more than `keep` logits reach.
  a.groups = static_cast<int>(std::min<uint64_t>(
      kThreads, std::bit_ceil(std::max<uint64_t>(32, 4 * static_cast<uint64_t>(keep)))));
  a.tops = tops;
  a.log_sums = log_sums;
  with_type(logits.dtype, [&](auto t) {
    top_kernel<decltype(t)>
        <<<static_cast<unsigned>(logits.rows), kThreads, 0, context.stream()>>>(a);
  });
  check_launch("top_rows");
}

void CudaBackend::beam_step(const Device&, const BeamStep& op) {
  const auto rows = static_cast<size_t>(op.logits.rows);
  const int64_t keep = std::min(op.keep, op.logits.cols);
  const size_t candidates = rows * static_cast<size_t>(keep) * sizeof(TopLogit);
  const size_t bytes = candidates + rows * sizeof(float);
  if (tops_.size() < bytes) {
    tops_ = DeviceMemory(2 * bytes, "candidates of a beam step");
    tops_host_ = PinnedMemory(2 * bytes, "candidates of a beam step");
  }
  auto* log_sums = reinterpret_cast<float*>(tops_.as<std::byte>() + candidates);
  top_rows(context_, op.logits, keep, tops_.as<TopLogit>(), log_sums);
  gpu_->download(tops_host_.as<void>(), tops_.get(), bytes);
  const auto* tops = tops_host_.as<TopLogit>();
  const auto* sums = reinterpret_cast<const float*>(tops_host_.as<std::byte>() + candidates);
  merge_candidates(op, static_cast<size_t>(keep), [&](size_t row, size_t rank) {
    const TopLogit& top = tops[row * static_cast<size_t>(keep) + rank];
    return RowCandidate{static_cast<double>(top.logit) - static_cast<double>(sums[row]), top.token};
  });
}

}  // namespace reigen::cuda
