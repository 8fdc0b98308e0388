#include "ops/merge_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

}  // namespace reigen
