#include "ops/beam_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/gpu_ops.h"
#include "ops/merge_candidates.h"

namespace reigen {
namespace {

struct Candidate {
  double score;
  uint32_t row;
  uint32_t rank;  // in its row
  uint32_t token;
  bool operator<(const Candidate& other) const {
    if (score != other.score) return score > other.score;
    return row != other.row ? row < other.row : rank < other.rank;
  }
};

}  // namespace

void merge_candidates(const BeamStep& op, size_t ranks,
                      const std::function<RowCandidate(size_t, size_t)>& candidate) {
  const auto keep = static_cast<size_t>(op.keep);
  std::vector<Candidate> candidates;
  for (size_t s = 0; s + 1 < op.row_offsets.size(); ++s) {
    candidates.clear();
    for (uint32_t row = op.row_offsets[s]; row < op.row_offsets[s + 1]; ++row) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const RowCandidate found = candidate(row, rank);
        const double total = op.scores[row] + found.log_probability;
        if (!std::isfinite(total)) break;
        candidates.push_back({total, row, rank, found.token});
      }
    }
    const size_t found = std::min(keep, candidates.size());
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(found),
                      candidates.end());
    for (size_t i = 0; i < keep; ++i) {
      const size_t at = s * keep + i;
      op.rows[at] = i < found ? candidates[i].row : 0;
      op.tokens[at] = i < found ? candidates[i].token : 0;
      op.totals[at] = i < found ? candidates[i].score : -std::numeric_limits<double>::infinity();
    }
  }
}

void beam_step(const Device& device, const BeamStep& op) {
  if (GpuOps* gpu = device.gpu()) return gpu->beam_step(op);
  const auto ranks =
      std::min<size_t>(static_cast<size_t>(op.keep), static_cast<size_t>(op.logits.cols));
  std::vector<cpu::TopLogit> tops(static_cast<size_t>(op.logits.rows) * ranks);
  std::vector<double> log_sums(static_cast<size_t>(op.logits.rows));
  parallel_for(device, op.logits.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const auto row = static_cast<size_t>(r);
      log_sums[row] = cpu::top_row(op.logits.row(r), static_cast<size_t>(op.logits.cols), ranks,
                                   tops.data() + row * ranks);
    }
  });
  merge_candidates(op, ranks, [&](size_t row, size_t rank) {
    const cpu::TopLogit& top = tops[row * ranks + rank];
    return RowCandidate{static_cast<double>(top.logit) - log_sums[row], top.token};
  });
}

}  // namespace reigen
