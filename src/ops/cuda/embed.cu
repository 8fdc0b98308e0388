#include "ops/cuda/embed.h"

#include <algorithm>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kWarps = 8;
constexpr uint32_t kSegment = 32;  // tokens: one for each lane of a warp

struct ForwardArgs {
  const uint32_t* ids;
  const uint32_t* places;
  const void* table;
  const float* positions;
  void* out;
  int64_t table_stride, positions_stride, out_stride;
  float scale;
  int rows, width;
  DropArgs drop;
};

template <class T, class Out>
__global__ __launch_bounds__(32 * kWarps) void forward_kernel(const ForwardArgs a) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= a.rows) return;
  const Drop d = drop_of(a.drop);
  const uint32_t id = a.ids[row];
  Out* out = static_cast<Out*>(a.out) + row * a.out_stride;
  for (int v = static_cast<int>(threadIdx.x) % 32; v < a.width / 8; v += 32) {
    Eight x = zero8();
    if (id != kNoToken) {
      x = load8(static_cast<const T*>(a.table) + id * a.table_stride + v * 8);
      const Eight p = load8(a.positions + a.places[row] * a.positions_stride + v * 8);
#pragma unroll
      for (int j = 0; j < 8; ++j) x.v[j] = fmaf(a.scale, x.v[j], p.v[j]);
      if (a.drop.threshold > 0) {
        drop8(d, a.drop.tokens[row], static_cast<uint32_t>(v), x);
      }
    }
    store8(out + v * 8, x);
  }
}

struct BackwardArgs {
  EmbedPlan plan;
  const void* dout;
  float* table;
  float* partials;
  int64_t dout_stride, table_stride;
  float scale;
  int width;
  DropArgs drop;
};

// A warp owns a segment and 256 columns. Lane i reads the number of the i-th token, so that the
// loads of rows do not wait for it; rows are added in the order of tokens.
template <class T>
__global__ __launch_bounds__(32 * kWarps) void segment_kernel(const BackwardArgs a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t slices = static_cast<uint32_t>(a.width + 255) / 256;
  const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32;
  if (warp / slices >= a.plan.segment_count) return;
  const EmbedSegment segment = a.plan.segments[warp / slices];
  const int count = static_cast<int>(segment.last - segment.first);
  if (count == 0) return;  // padding of a list
  const uint32_t mine =
      lane < count ? a.plan.order[segment.first + static_cast<uint32_t>(lane)] : 0;
  const bool drop = a.drop.threshold > 0;
  const Drop d = drop_of(a.drop);
  const uint64_t number = drop && lane < count ? a.drop.tokens[mine] : 0;
  const int v = static_cast<int>(warp % slices) * 32 + lane;
  const bool inside = v * 8 < a.width;
  const T* column = static_cast<const T*>(a.dout) + (inside ? v : 0) * 8;
  Eight sum = zero8();
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const uint32_t token = __shfl_sync(0xFFFFFFFFu, mine, i);
    const uint64_t global = __shfl_sync(0xFFFFFFFFu, number, i);
    Eight x = load8(column + token * a.dout_stride);
    if (drop) drop8(d, global, static_cast<uint32_t>(v), x);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.v[j] += x.v[j];
  }
  if (!inside) return;
  if (segment.slot != kNoToken) {
    store8(a.partials + static_cast<int64_t>(segment.slot) * a.width + v * 8, sum);
    return;
  }
  float* at = a.table + segment.row * a.table_stride + v * 8;
  Eight old = load8(static_cast<const float*>(at));
#pragma unroll
  for (int j = 0; j < 8; ++j) old.v[j] = fmaf(a.scale, sum.v[j], old.v[j]);
  store8(at, old);
}

__global__ __launch_bounds__(32 * kWarps) void sum_kernel(const BackwardArgs a) {
  const uint32_t index = blockIdx.x * kWarps + threadIdx.x / 32;
  if (index >= a.plan.sum_count) return;
  const EmbedSum sum = a.plan.sums[index];
  if (sum.slots == 0) return;  // padding of a list
  for (int v = static_cast<int>(threadIdx.x) % 32; v < a.width / 8; v += 32) {
    Eight total = zero8();
#pragma unroll 4
    for (uint32_t s = 0; s < sum.slots; ++s) {
      const Eight x = load8(static_cast<const float*>(a.partials) +
                            static_cast<int64_t>(sum.first_slot + s) * a.width + v * 8);
#pragma unroll
      for (int j = 0; j < 8; ++j) total.v[j] += x.v[j];
    }
    float* at = a.table + sum.row * a.table_stride + v * 8;
    Eight old = load8(static_cast<const float*>(at));
#pragma unroll
    for (int j = 0; j < 8; ++j) old.v[j] = fmaf(a.scale, total.v[j], old.v[j]);
    store8(at, old);
  }
}

unsigned blocks_for(int64_t warps) { return static_cast<unsigned>((warps + kWarps - 1) / kWarps); }

}  // namespace

void CudaBackend::embed_forward(const Device&, const EmbedInput& input, Tensor table,
                                Tensor positions, Tensor out) {
  if (out.rows == 0) return;
  require(out.cols % 8 == 0, "a width that is a multiple of 8");
  require(table.dtype == out.dtype || out.dtype == DType::kF32,
          "embeddings of the table's type or fp32");
  ForwardArgs a{};
  a.ids = input.ids.data();
  a.places = input.places.data();
  a.table = table.data;
  a.positions = data_of<float>(positions);
  a.out = out.data;
  a.table_stride = table.stride;
  a.positions_stride = positions.stride;
  a.out_stride = out.stride;
  a.scale = input.scale;
  a.rows = static_cast<int>(out.rows);
  a.width = static_cast<int>(out.cols);
  a.drop = drop_args(context_, input.dropout);
  with_type(table.dtype, [&](auto t) {
    using T = decltype(t);
    const auto kernel = out.dtype == DType::kF32 ? forward_kernel<T, float> : forward_kernel<T, T>;
    kernel<<<blocks_for(out.rows), 32 * kWarps, 0, context_.stream()>>>(a);
  });
  check_launch("embed_forward");
}

EmbedSchedule schedule_embed_backward(std::span<const uint32_t> keys) {
  EmbedSchedule schedule;
  std::vector<uint64_t> sorted;
  sorted.reserve(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) {
    if (keys[t] != kNoToken) sorted.push_back((uint64_t{keys[t]} << 32) | t);
  }
  std::sort(sorted.begin(), sorted.end());
  for (uint64_t entry : sorted) schedule.order.push_back(static_cast<uint32_t>(entry));
  const auto count = static_cast<uint32_t>(sorted.size());
  for (uint32_t first = 0; first < count;) {
    const auto row = static_cast<uint32_t>(sorted[first] >> 32);
    uint32_t last = first + 1;
    while (last < count && sorted[last] >> 32 == row) ++last;
    const uint32_t segments = (last - first + kSegment - 1) / kSegment;
    if (segments > 1) {
      schedule.sums.push_back({row, schedule.slots, segments});
    }
    for (uint32_t p = 0; p < segments; ++p) {
      schedule.segments.push_back({first + p * kSegment, std::min(last, first + (p + 1) * kSegment),
                                   row, segments > 1 ? schedule.slots++ : kNoToken});
    }
    first = last;
  }
  return schedule;
}

namespace {

// dtable[key] += scale * dropped dout, in fp32.
void add_rows(const Context& context, const EmbedPlan& plan, Tensor dout, float scale,
              const Dropout& dropout, Tensor dtable) {
  if (plan.segment_count == 0) return;
  require(dout.cols % 8 == 0, "a width that is a multiple of 8");
  BackwardArgs a{};
  a.plan = plan;
  a.dout = dout.data;
  a.table = data_of<float>(dtable);
  a.dout_stride = dout.stride;
  a.table_stride = dtable.stride;
  a.scale = scale;
  a.width = static_cast<int>(dout.cols);
  a.drop = drop_args(context, dropout);
  a.partials = static_cast<float*>(
      context.scratch(sizeof(float) * plan.slots * static_cast<size_t>(dout.cols)));
  with_type(dout.dtype, [&](auto t) {
    segment_kernel<decltype(t)><<<blocks_for(plan.segment_count * ((dout.cols + 255) / 256)),
                                  32 * kWarps, 0, context.stream()>>>(a);
  });
  check_launch("embed_backward");
  if (plan.sum_count == 0) return;
  sum_kernel<<<blocks_for(plan.sum_count), 32 * kWarps, 0, context.stream()>>>(a);
  check_launch("embed_backward");
}

}  // namespace

void CudaBackend::embed_backward(const Device&, const EmbedInput& input, Tensor dout, Tensor dtable,
                                 Tensor dpositions) {
  const auto& plans = static_cast<const EmbedPlans&>(*input.plan);
  add_rows(context_, plans.by_id, dout, input.scale, input.dropout, dtable);
  if (!dpositions.empty()) {
    add_rows(context_, plans.by_place, dout, 1, input.dropout, dpositions);
  }
}

}  // namespace reigen::cuda
