#include "eval/scores.h"

#include "base/format.h"

namespace reigen {
namespace {

constexpr const char* kSameAsSacrebleu = "2.6.0";
constexpr size_t kBleuWidth = 2 + 2 * kBleuOrder;

ChrfOptions chrf_options(ScoreMetric metric) {
  return {.word_order = metric == ScoreMetric::kChrfPlusPlus ? size_t{2} : size_t{0}};
}

void add_row(std::vector<uint32_t>& rows, const BleuCounts& counts) {
  rows.push_back(static_cast<uint32_t>(counts.hypothesis_length));
  rows.push_back(static_cast<uint32_t>(counts.reference_length));
  for (uint64_t n : counts.correct) rows.push_back(static_cast<uint32_t>(n));
  for (uint64_t n : counts.total) rows.push_back(static_cast<uint32_t>(n));
}

void add_row(std::vector<uint32_t>& rows, const ChrfCounts& counts) {
  for (const ChrfOrder& order : counts) {
    rows.push_back(static_cast<uint32_t>(order.hypothesis));
    rows.push_back(static_cast<uint32_t>(order.reference));
    rows.push_back(static_cast<uint32_t>(order.matches));
  }
}

template <class Counter>
void add_rows(Counter counter, const Lines& hypotheses, const std::vector<Lines>& references,
              std::vector<uint32_t>& rows) {
  for_each_sentence(hypotheses, references,
                    [&](std::string_view hypothesis, std::span<const std::string_view> refs) {
                      add_row(rows, counter.count(hypothesis, refs));
                    });
}

}  // namespace

CountTable count_sentences(ScoreMetric metric, const Lines& hypotheses,
                           const std::vector<Lines>& references) {
  CountTable table = {.metric = metric};
  if (metric == ScoreMetric::kBleu) {
    table.width = kBleuWidth;
    add_rows(BleuCounter(), hypotheses, references, table.counts);
  } else {
    const ChrfOptions options = chrf_options(metric);
    table.width = 3 * options.orders();
    add_rows(ChrfCounter(options), hypotheses, references, table.counts);
  }
  return table;
}

std::vector<uint64_t> sum_of(const CountTable& table) {
  std::vector<uint64_t> sums(table.width);
  for (size_t i = 0; i < table.counts.size(); ++i) sums[i % table.width] += table.counts[i];
  return sums;
}

BleuScore bleu_of(std::span<const uint64_t> sums) {
  BleuCounts counts = {.hypothesis_length = sums[0], .reference_length = sums[1]};
  for (size_t n = 0; n < kBleuOrder; ++n) {
    counts.correct[n] = sums[2 + n];
    counts.total[n] = sums[2 + kBleuOrder + n];
  }
  return bleu_score(counts);
}

double score_of(ScoreMetric metric, std::span<const uint64_t> sums) {
  if (metric == ScoreMetric::kBleu) return bleu_of(sums).score;
  ChrfCounts counts(sums.size() / 3);
  for (size_t n = 0; n < counts.size(); ++n) {
    counts[n] = {sums[3 * n], sums[3 * n + 1], sums[3 * n + 2]};
  }
  return chrf_score(counts, chrf_options(metric));
}

std::string metric_name(ScoreMetric metric) {
  return metric == ScoreMetric::kBleu ? "BLEU" : chrf_name(chrf_options(metric));
}

std::string signature(ScoreMetric metric, size_t references,
                      const std::optional<Resampling>& resampling) {
  std::string text = format("nrefs:{}|", references);
  if (resampling) text += format("bs:{}|seed:{}|", resampling->resamples, resampling->seed);
  text += metric == ScoreMetric::kBleu ? bleu_settings() : chrf_settings(chrf_options(metric));
  return text + format("|version:{}|by:reigen", kSameAsSacrebleu);
}

}  // namespace reigen
