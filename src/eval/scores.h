// All metrics in one form: a table of counts with a row per sentence; a score is a function of the
// sum of its rows.
//
// Text is tokenised and compared once; the corpus score, its interval and the comparison of two
// systems are then sums over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/evaluate_options.h"
#include "eval/bleu.h"
#include "eval/chrf.h"
#include "eval/corpus.h"

namespace reigen {

struct CountTable {
  ScoreMetric metric = ScoreMetric::kBleu;
  size_t width = 0;
  std::vector<uint32_t> counts;  // `width` for each sentence

  size_t sentences() const { return counts.size() / width; }
};

CountTable count_sentences(ScoreMetric metric, const Lines& hypotheses,
                           const std::vector<Lines>& references);

// The sum of all rows, and a score from it or from any other sum of rows.
std::vector<uint64_t> sum_of(const CountTable& table);
double score_of(ScoreMetric metric, std::span<const uint64_t> sums);

// BLEU with its precisions, from a sum of BLEU's rows.
BleuScore bleu_of(std::span<const uint64_t> sums);

// BLEU, chrF2 and chrF2++, as sacreBLEU calls them.
std::string metric_name(ScoreMetric metric);

// How intervals are drawn; see significance.h.
struct Resampling {
  int64_t resamples = 1000;
  uint64_t seed = 12345;
};

// The settings a score depends on, so that others can compare: sacreBLEU's own signature for the
// same settings, version:2.6.0 included because the figure is that version's, and then |by:reigen
// because Reigen computed it. With resampling it has bs and seed, too, where sacreBLEU has them;
// the resamples of a seed are Reigen's own (see significance.h).
std::string signature(ScoreMetric metric, size_t references,
                      const std::optional<Resampling>& resampling);

}  // namespace reigen
