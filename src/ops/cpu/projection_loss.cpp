#include "ops/projection_loss.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/gpu_ops.h"
#include "ops/matmul.h"

namespace reigen {

LossSums projection_loss(const Device& device, const ProjectionLoss& op, Arena& arena) {
  if (GpuOps* gpu = device.gpu()) return gpu->projection_loss(op, arena);
  const int64_t tokens = op.hidden.rows;
  const bool gradient = !op.dhidden.empty();
  const Arena::Mark mark = arena.mark();
  const Tensor logits = arena.matrix(std::min(op.chunk, tokens), op.table.rows);
  std::vector<cpu::RowLoss> losses(static_cast<size_t>(tokens));
  for (int64_t first = 0; first < tokens; first += op.chunk) {
    const int64_t count = std::min(op.chunk, tokens - first);
    const Tensor hidden = op.hidden.rows_from(first, count);
    const Tensor z = logits.rows_from(0, count);
    linear_forward(device, hidden, op.table, z);
    parallel_for(device, count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const auto token = static_cast<size_t>(first + r);
        losses[token] =
            cpu::cross_entropy_row({op.targets[token], op.smoothing, op.scale, gradient}, z.row(r),
                                   static_cast<size_t>(z.cols));
      }
    });
    if (!gradient) continue;
    linear_backward_input(device, z, op.table, op.dhidden.rows_from(first, count), false);
    linear_backward_weight(device, z, hidden, op.dtable);
  }
  arena.release(mark);
  LossSums sums;
  for (const auto& loss : losses) {
    sums.smoothed += loss.smoothed;
    sums.nll += loss.nll;
  }
  return sums;
}

}  // namespace reigen
