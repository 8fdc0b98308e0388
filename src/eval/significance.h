// Uncertainty of a score: bootstrap intervals and the paired comparison of two systems
// (Koehn 2004), from counts of sentences, deterministic by seed.
//
// Definitions are sacreBLEU's: the 95% interval leaves out a fortieth of the resampled scores at
// either end, and the p-value is that of its paired bootstrap test. Its resamples are numpy's,
// drawn from PCG64; ours come from splitmix64, so with the same seed single resamples differ and
// intervals agree as two of sacreBLEU's with different seeds do. It sums counts in float32; ours
// are exact.
#pragma once

#include <span>
#include <vector>

#include "eval/scores.h"

namespace reigen {

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;

  double half_width() const { return (high - low) / 2; }  // sacreBLEU's "± 95% CI"
};

// The gain of `system` over `baseline`.
struct Comparison {
  double difference = 0;
  Interval interval;        // of the difference
  double share_better = 0;  // of resamples in which the system scores higher
  // Roughly how likely a difference at least this large is if both systems are equally good. 1 when
  // both score the same in every resample, which sacreBLEU's formula would call significant.
  double p_value = 1;
};

// For each table the score of each resample. All tables, of one or two systems and any metrics, see
// the same sentences in the same resample; they must have equally many.
std::vector<std::vector<double>> resample_scores(std::span<const CountTable> tables,
                                                 const Resampling& resampling);

Interval interval_of(std::vector<double> scores);

// From two rows of resample_scores and the scores of the whole corpus.
Comparison compare(double system, double baseline, const std::vector<double>& system_resampled,
                   const std::vector<double>& baseline_resampled);

}  // namespace reigen
