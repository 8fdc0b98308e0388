#include "ops/beam_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/gpu_ops.h"

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

// The best candidates of every row, best first.
class RowTops {
 public:
  RowTops(const Device& device, const BeamStep& op)
      : keep_(std::min<size_t>(static_cast<size_t>(op.keep), static_cast<size_t>(op.logits.cols))),
        tops_(static_cast<size_t>(op.logits.rows) * keep_),
        log_sums_(static_cast<size_t>(op.logits.rows)) {
    parallel_for(device, op.logits.rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const auto row = static_cast<size_t>(r);
        log_sums_[row] = cpu::top_row(op.logits.row(r), static_cast<size_t>(op.logits.cols), keep_,
                                      tops_.data() + row * keep_);
      }
    });
  }

  void append(uint32_t row, double score, std::vector<Candidate>& out) const {
    if (!std::isfinite(log_sums_[row])) return;
    for (size_t i = 0; i < keep_; ++i) {
      const cpu::TopLogit& top = tops_[row * keep_ + i];
      const double total = score + (static_cast<double>(top.logit) - log_sums_[row]);
      if (!std::isfinite(total)) return;
      out.push_back({total, row, static_cast<uint32_t>(i), top.token});
    }
  }

 private:
  size_t keep_;
  std::vector<cpu::TopLogit> tops_;
  std::vector<double> log_sums_;
};

}  // namespace

void beam_step(const Device& device, const BeamStep& op) {
  if (GpuOps* gpu = device.gpu()) return gpu->beam_step(op);
  const RowTops tops(device, op);
  const auto keep = static_cast<size_t>(op.keep);
  std::vector<Candidate> candidates;
  for (size_t s = 0; s + 1 < op.row_offsets.size(); ++s) {
    candidates.clear();
    for (uint32_t r = op.row_offsets[s]; r < op.row_offsets[s + 1]; ++r) {
      tops.append(r, op.scores[r], candidates);
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
