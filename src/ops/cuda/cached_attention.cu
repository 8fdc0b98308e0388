// A group of lanes shares one key of a head, eight elements a lane, so a warp processes several
// keys at once, each group with a softmax of its own; groups, and the warps of a block, are joined
// at the end in a fixed order. The indices of several keys are loaded before the first key is read.
//
// Rows with the same list (KeyLists::shared) are processed by one warp, which reads each key once.
//
// q, k, v and out share a type; head widths are multiples of 8 up to 256. A row without keys gets
// zeros.
#include <cmath>

#include "ops/cuda/attention/attention_softmax.cuh"
#include "ops/cuda/backend.h"

namespace reigen::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kAhead = 4;  // keys of a group in flight
constexpr float kLog2e = 1.4426950408889634F;

struct Args {
  const void* q;
  const void* k;
  const void* v;
  const void* new_k;  // null: nothing to write
  const void* new_v;
  void* out;
  const uint32_t* picks;
  const uint32_t* begin;
  const uint32_t* count;
  int64_t q_stride, k_stride, v_stride, new_stride, out_stride;
  int rows, heads, width;
  float scale;  // of the scores, base 2
};

// The keys of one row and head that belong to this warp: chunks `part`, `part` + kParts, ...
template <class T, int kLanes, int kParts>
__device__ Weighted attend(const Args& a, int row, int column, bool inside, int part) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kChunk = kGroups * kAhead;
  const int group = static_cast<int>(threadIdx.x) % 32 / kLanes;
  const uint32_t* picks = a.picks + a.begin[row];
  const int count = static_cast<int>(a.count[row]);
  Eight q = zero8();
  if (inside) q = load8(static_cast<const T*>(a.q) + row * a.q_stride + column);
#pragma unroll
  for (int i = 0; i < 8; ++i) q.v[i] *= a.scale;
  Weighted out = nothing_weighted();
  const float kept[kAhead] = {1, 1, 1, 1};
  for (int first = part * kChunk; first < count; first += kParts * kChunk) {
    Raw8<T> k[kAhead], v[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      const int place = min(first + n * kGroups + group, count - 1);
      const int64_t pick = picks[place];
      const T* from_k = static_cast<const T*>(a.k) + pick * a.k_stride + column;
      const T* from_v = static_cast<const T*>(a.v) + pick * a.v_stride + column;
      if (a.new_k != nullptr && place == count - 1) {  // not in the cache yet
        from_k = static_cast<const T*>(a.new_k) + row * a.new_stride + column;
        from_v = static_cast<const T*>(a.new_v) + row * a.new_stride + column;
      }
      k[n] = load_raw(from_k);
      v[n] = load_raw(from_v);
    }
    float scores[kAhead];
    Eight values[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      scores[n] = group_dot<kLanes>(q, unpack<T>(k[n]));
      values[n] = unpack<T>(v[n]);
      if (first + n * kGroups + group >= count) scores[n] = -INFINITY;
    }
    add_keys(out, scores, values, kept);
  }
  join_groups<kLanes>(out);
  return out;
}

// The row's own key and value to the cache, for the steps to come: no block reads them there now.
template <class T>
__device__ void write_own(const Args& a, int row, int column) {
  const uint32_t count = a.count[row];
  if (count == 0) return;
  const int64_t own = a.picks[a.begin[row] + count - 1];
  const int64_t from = row * a.new_stride + column;
  auto* to_k = const_cast<T*>(static_cast<const T*>(a.k)) + own * a.k_stride + column;
  auto* to_v = const_cast<T*>(static_cast<const T*>(a.v)) + own * a.v_stride + column;
  *reinterpret_cast<Raw8<T>*>(to_k) = load_raw(static_cast<const T*>(a.new_k) + from);
  *reinterpret_cast<Raw8<T>*>(to_v) = load_raw(static_cast<const T*>(a.new_v) + from);
}

// The weighted mean of a row and head, by the lanes that are `chosen`.
template <class T>
__device__ void write_out(const Args& a, int row, int column, bool chosen, Weighted all) {
  if (!chosen) return;
  const float factor = all.sum == 0 ? 0.0F : 1.0F / all.sum;
#pragma unroll
  for (int i = 0; i < 8; ++i) all.values.v[i] *= factor;
  store8(static_cast<T*>(a.out) + row * a.out_stride + column, all.values);
}

// kParts warps work on one row and head.
template <class T, int kLanes, int kParts>
__global__ __launch_bounds__(32 * kWarps) void cached_kernel(const Args a) {
  __shared__ Weighted parts[kWarps][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // The warps of a block have the same head and adjacent rows, which are of one beam and share most
  // of their ancestors: the others find rows that one of them has read in the multiprocessor's
  // cache.
  constexpr int kRows = kWarps / kParts;
  const int head = static_cast<int>(blockIdx.x) % a.heads;
  const int row = static_cast<int>(blockIdx.x) / a.heads * kRows + warp / kParts;
  if (row >= a.rows) return;  // with several parts, either all or none of a block's warps
  const bool inside = lane % kLanes * 8 < a.width;
  const int column = head * a.width + (inside ? lane % kLanes * 8 : 0);
  Weighted all = attend<T, kLanes, kParts>(a, row, column, inside, warp % kParts);
  if (a.new_k != nullptr && warp % kParts == 0 && lane < kLanes && inside) {
    write_own<T>(a, row, column);
  }
  if constexpr (kParts > 1) {
    if (lane < kLanes) parts[warp][lane] = all;
    __syncthreads();
    if (warp != 0) return;
    for (int w = 1; w < kWarps; ++w) {
      join(all, parts[w][lane % kLanes]);
    }
  }
  write_out<T>(a, row, column, lane < kLanes && inside, all);
}

// The keys of one head for kRows rows with the same list, or with none.
template <class T, int kLanes, int kRows>
__device__ void attend_together(const Args& a, int first_row, int column, bool inside, int count) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kKeys = 2;  // of a group in flight
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t* picks = a.picks + a.begin[first_row];
  Eight q[kRows];
  Weighted out[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    q[r] = zero8();
    if (inside) q[r] = load8(static_cast<const T*>(a.q) + (first_row + r) * a.q_stride + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) q[r].v[i] *= a.scale;
    out[r] = nothing_weighted();
  }
  const float kept[kKeys] = {1, 1};
  Raw8<T> k[kKeys], v[kKeys];
  auto load = [&](int first) {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      const int64_t pick = picks[min(first + n * kGroups + lane / kLanes, count - 1)];
      k[n] = load_raw(static_cast<const T*>(a.k) + pick * a.k_stride + column);
      v[n] = load_raw(static_cast<const T*>(a.v) + pick * a.v_stride + column);
    }
  };
  if (count > 0) load(0);
  for (int first = 0; first < count; first += kKeys * kGroups) {
    Eight keys[kKeys], values[kKeys];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      keys[n] = unpack<T>(k[n]);
      values[n] = unpack<T>(v[n]);
    }
    if (first + kKeys * kGroups < count) load(first + kKeys * kGroups);  // while these are used
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float scores[kKeys];
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        scores[n] = group_dot<kLanes>(q[r], keys[n]);
        if (first + n * kGroups + lane / kLanes >= count) scores[n] = -INFINITY;
      }
      add_keys(out[r], scores, values, kept);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    join_groups<kLanes>(out[r]);
    if (lane >= kLanes || !inside) continue;
    const float factor = a.count[first_row + r] == 0 ? 0.0F : 1.0F / out[r].sum;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[r].values.v[i] *= factor;
    store8(static_cast<T*>(a.out) + (first_row + r) * a.out_stride + column, out[r].values);
  }
}

// A warp for each head of kRows adjacent rows.
template <class T, int kLanes, int kRows>
__global__ __launch_bounds__(32 * kWarps, 4) void shared_kernel(const Args a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int item = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (item >= a.rows / kRows * a.heads) return;
  const int first_row = item / a.heads * kRows;
  const bool inside = lane % kLanes * 8 < a.width;
  const int column = item % a.heads * a.width + (inside ? lane % kLanes * 8 : 0);
  uint32_t most = 0;
  for (int r = 0; r < kRows; ++r) most = max(most, a.count[first_row + r]);
  bool same = true;
  for (int r = 0; r < kRows; ++r) {
    const uint32_t count = a.count[first_row + r];
    same = same && (count == 0 || (count == most && a.begin[first_row + r] == a.begin[first_row]));
  }
  if (same) {
    return attend_together<T, kLanes, kRows>(a, first_row, column, inside, static_cast<int>(most));
  }
  for (int row = first_row; row < first_row + kRows; ++row) {
    write_out<T>(a, row, column, lane < kLanes && inside,
                 attend<T, kLanes, 1>(a, row, column, inside, 0));
  }
}

template <class T, int kLanes>
void launch(const Context& context, const Args& a, int shared) {
  const int items = a.rows * a.heads;
  // Small beams are better divided over many warps.
  const bool together = a.new_k == nullptr && items >= 16 * context.multiprocessors();
  auto start = [&](auto kernel, int rows) {
    const int warps = a.rows / rows * a.heads;
    kernel<<<static_cast<unsigned>((warps + kWarps - 1) / kWarps), 32 * kWarps, 0,
             context.stream()>>>(a);
  };
  if (together && shared % 4 == 0 && a.rows % 4 == 0) {
    return start(shared_kernel<T, kLanes, 4>, 4);
  }
  if (together && shared % 2 == 0 && a.rows % 2 == 0) {
    return start(shared_kernel<T, kLanes, 2>, 2);
  }
  // A small beam leaves multiprocessors idle unless several warps share a row and head.
  const bool split = items < 16 * context.multiprocessors();
  const int row_blocks = split ? a.rows : (a.rows + kWarps - 1) / kWarps;
  const auto blocks = static_cast<unsigned>(row_blocks * a.heads);
  const auto kernel = split ? cached_kernel<T, kLanes, kWarps> : cached_kernel<T, kLanes, 1>;
  kernel<<<blocks, 32 * kWarps, 0, context.stream()>>>(a);
}

}  // namespace

void CudaBackend::cached_attention(const Device&, const CachedAttention& op) {
  if (op.q.rows == 0) return;
  const int64_t width = op.q.cols / op.heads;
  require(width % 8 == 0 && width <= 256, "a head width that is a multiple of 8, at most 256");
  require(op.k.dtype == op.q.dtype && op.v.dtype == op.q.dtype && op.out.dtype == op.q.dtype,
          "one type in cached_attention");
  Args a{};
  a.q = op.q.data;
  a.k = op.k.data;
  a.v = op.v.data;
  if (!op.new_k.empty()) {
    require(op.new_k.dtype == op.q.dtype && op.new_v.dtype == op.q.dtype &&
                op.new_k.stride == op.new_v.stride,
            "new keys and values of one type and stride in cached_attention");
    a.new_k = op.new_k.data;
    a.new_v = op.new_v.data;
    a.new_stride = op.new_k.stride;
  }
  a.out = op.out.data;
  a.picks = op.keys.picks.data();
  a.begin = op.keys.begin.data();
  a.count = op.keys.count.data();
  a.q_stride = op.q.stride;
  a.k_stride = op.k.stride;
  a.v_stride = op.v.stride;
  a.out_stride = op.out.stride;
  a.rows = static_cast<int>(op.q.rows);
  a.heads = op.heads;
  a.width = static_cast<int>(width);
  a.scale = kLog2e / std::sqrt(static_cast<float>(width));
  with_type(op.q.dtype, [&](auto t) {
    using T = decltype(t);
    with_lanes(a.width,
               [&](auto lanes) { launch<T, decltype(lanes)::value>(context_, a, op.keys.shared); });
  });
  check_launch("cached_attention");
}

}  // namespace reigen::cuda
