// ops/cached_attention.h on the CPU: a share of the rows for each thread, by decode_kernels.cpp.
#include "ops/cached_attention.h"

#include <algorithm>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kCachedGrain = 4;  // rows; adjacent rows are of one beam and share most ancestors

}  // namespace

void CpuBackend::cached_attention(const Device& device, const CachedAttention& op) {
  parallel_for(device, op.q.rows, kCachedGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const auto row = static_cast<size_t>(r);
      if (!op.new_k.empty()) {
        const uint32_t own = op.keys.picks[op.keys.begin[row] + op.keys.count[row] - 1];
        std::copy_n(op.new_k.row(r), op.new_k.cols, op.k.row(own));
        std::copy_n(op.new_v.row(r), op.new_v.cols, op.v.row(own));
      }
      PickedRow task;
      task.q = op.q.row(r);
      task.k = op.k.row(0);
      task.v = op.v.row(0);
      task.k_stride = static_cast<size_t>(op.k.stride);
      task.v_stride = static_cast<size_t>(op.v.stride);
      task.picks = op.keys.picks.data() + op.keys.begin[row];
      task.count = op.keys.count[row];
      task.heads = static_cast<size_t>(op.heads);
      task.width = static_cast<size_t>(op.q.cols / op.heads);
      task.out = op.out.row(r);
      picked_attention_row(task);
    }
  });
}

}  // namespace reigen::cpu
