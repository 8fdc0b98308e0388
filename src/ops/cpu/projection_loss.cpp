// ops/projection_loss.h on the CPU: chunk by chunk, product, cross-entropy, then both gradients.
#include "ops/projection_loss.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/matmul.h"

namespace reigen::cpu {

LossSums CpuBackend::projection_loss(const Device& device, const ProjectionLoss& op, Arena& arena) {
  const int64_t tokens = op.hidden.rows;
  const int64_t chunk = op.chunk > 0 ? op.chunk : projection_loss_chunk(device.kind());
  const bool gradient = !op.dhidden.empty();
  const Arena::Mark mark = arena.mark();
  const Tensor logits = arena.matrix(std::min(chunk, tokens), op.table.rows);
  std::vector<RowLoss> losses(static_cast<size_t>(tokens));
  for (int64_t first = 0; first < tokens; first += chunk) {
    const int64_t count = std::min(chunk, tokens - first);
    const Tensor hidden = op.hidden.rows_from(first, count);
    const Tensor z = logits.rows_from(0, count);
    linear_forward(device, hidden, {op.table, op.packed}, z);
    if (!op.bias.empty()) add_bias(device, z, op.bias);
    parallel_for(device, count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const auto token = static_cast<size_t>(first + r);
        losses[token] = cross_entropy_row({op.targets[token], op.smoothing, op.scale, gradient},
                                          z.row(r), static_cast<size_t>(z.cols));
      }
    });
    if (!gradient) continue;
    linear_backward_input(device, z, op.table, op.dhidden.rows_from(first, count), false);
    linear_backward_weight(device, z, hidden, op.dtable);
    if (!op.dbias.empty()) bias_backward(device, z, op.dbias);
  }
  arena.release(mark);
  LossSums sums;
  for (size_t token = 0; token < losses.size(); ++token) {
    sums.smoothed += losses[token].smoothed;
    sums.nll += losses[token].nll;
    if (op.token_nll != nullptr) op.token_nll[token] = static_cast<float>(losses[token].nll);
  }
  if (op.sums == nullptr) return sums;
  op.sums->smoothed += sums.smoothed;
  op.sums->nll += sums.nll;
  return {};
}

}  // namespace reigen::cpu
