#include "report/verdict/learning/loss_rises.h"

#include <algorithm>
#include <cmath>

namespace reigen {
namespace {

constexpr size_t kLossBlocks = 100;
constexpr size_t kFewestLossBlocks = 10;
// A rise is by this share of the lowest loss before, and by this many deviations of a block.
constexpr double kRise = 0.25;
constexpr double kRiseNoise = 6;
constexpr double kLeastRise = 0.1;  // nats: a loss near 0 doubles often
constexpr double kBack = 0.5;       // share of a rise below which it is back
// A rise of a single block is one by this share.
constexpr double kSharpRise = 0.6;

struct LossBlock {
  double first = 0;  // step
  double loss = 0;
  double norm = 0;
};

std::vector<LossBlock> loss_blocks(const RunSummary& run) {
  const RollupTable& t = run.steps;
  const size_t finite = t.column("finite");
  const size_t nll = t.column("nll");
  const size_t norm = t.column("norm");
  const size_t each = (t.rows().size() + kLossBlocks - 1) / kLossBlocks;
  std::vector<LossBlock> blocks;
  LossBlock sum;
  double count = 0;
  size_t rows = 0;
  for (const auto& [number, row] : t.rows()) {
    if (count == 0) sum = {.first = static_cast<double>(number * t.width())};
    sum.loss += row[nll];
    sum.norm += row[norm];
    count += row[finite];
    if (++rows % std::max<size_t>(1, each) != 0 || count == 0) continue;
    const LossBlock mean = {sum.first, sum.loss / count, sum.norm / count};
    count = 0;
    if (std::isfinite(mean.loss)) blocks.push_back(mean);
  }
  return blocks;
}

// The standard deviation of a block around its neighbours, by the median, which rises leave alone.
double block_noise(const std::vector<LossBlock>& blocks) {
  std::vector<double> off;
  for (size_t i = 1; i + 1 < blocks.size(); ++i) {
    off.push_back(std::abs(blocks[i].loss - (blocks[i - 1].loss + blocks[i + 1].loss) / 2));
  }
  const auto middle = off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2);
  std::nth_element(off.begin(), middle, off.end());
  return *middle / 0.6745 / std::sqrt(1.5);
}

}  // namespace

std::vector<LossRise> loss_rises(const RunSummary& run) {
  const std::vector<LossBlock> blocks = loss_blocks(run);
  std::vector<LossRise> rises;
  if (blocks.size() < kFewestLossBlocks) return rises;
  const double noise = block_noise(blocks);
  LossBlock low = blocks[0];
  double count = 0;  // blocks of the last rise
  for (size_t i = 1; i < blocks.size(); ++i) {
    const double loss = blocks[i].loss;
    const double rise = std::max(kRise * low.loss, kLeastRise) + kRiseNoise * noise;
    if (!rises.empty() && rises.back().lasts()) {
      LossRise& last = rises.back();
      if (loss > low.loss + kBack * rise) {
        last.after += (loss - last.after) / ++count;
        last.norm_after += (blocks[i].norm - last.norm_after) / count;
        continue;
      }
      last.end = blocks[i].first;
    }
    const bool goes_on = i + 1 == blocks.size() || blocks[i + 1].loss > low.loss + kBack * rise;
    const bool sharp = loss > (1 + kSharpRise) * low.loss + rise;
    if (loss > low.loss + rise && (goes_on || sharp)) {
      count = 1;
      rises.push_back({.step = blocks[i].first,
                       .before = low.loss,
                       .after = loss,
                       .norm_before = low.norm,
                       .norm_after = blocks[i].norm});
    }
    if (loss < low.loss) low = blocks[i];
  }
  return rises;
}

}  // namespace reigen
