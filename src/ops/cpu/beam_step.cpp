// ops/beam_step.h on the CPU: the best logits of each row in parallel, then one merge.
#include "ops/beam_step.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/merge_candidates.h"

namespace reigen::cpu {
void CpuBackend::beam_step(const Device& device, const BeamStep& op) {
  const auto ranks =
      std::min<size_t>(static_cast<size_t>(op.keep), static_cast<size_t>(op.logits.cols));
  std::vector<TopLogit> tops(static_cast<size_t>(op.logits.rows) * ranks);
  std::vector<double> log_sums(static_cast<size_t>(op.logits.rows));
  parallel_for(device, op.logits.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const auto row = static_cast<size_t>(r);
      log_sums[row] = top_row(op.logits.row(r), static_cast<size_t>(op.logits.cols), ranks,
                              tops.data() + row * ranks);
    }
  });
  merge_candidates(op, ranks, [&](size_t row, size_t rank) {
    const TopLogit& top = tops[row * ranks + rank];
    return RowCandidate{static_cast<double>(top.logit) - log_sums[row], top.token};
  });
}

}  // namespace reigen::cpu
