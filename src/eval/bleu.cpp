#include "eval/bleu.h"

#include <cmath>
#include <unordered_map>

#include "base/format.h"
#include "eval/segment.h"

namespace reigen {
namespace {

double smoothing_value(const BleuOptions& options) {
  return options.value.value_or(options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1.0);
}

double brevity_penalty(const BleuCounts& counts) {
  if (counts.hypothesis_length >= counts.reference_length) return 1;
  if (counts.hypothesis_length == 0) return 0;
  return std::exp(1 - static_cast<double>(counts.reference_length) /
                          static_cast<double>(counts.hypothesis_length));
}

uint64_t nearest_length(const std::vector<size_t>& lengths, size_t length) {
  auto distance = [length](size_t l) { return l > length ? l - length : length - l; };
  size_t best = lengths[0];
  for (size_t l : lengths) {
    if (distance(l) < distance(best) || (distance(l) == distance(best) && l < best)) best = l;
  }
  return best;
}

}  // namespace

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  return *this;
}

std::string BleuScore::text() const {
  double ratio = reference_length == 0 ? 0
                                       : static_cast<double>(hypothesis_length) /
                                             static_cast<double>(reference_length);
  return format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} "
      "ref_len = {})",
      score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio,
      hypothesis_length, reference_length);
}

BleuCounter::BleuCounter() : matcher_(kBleuOrder) {}

BleuCounts BleuCounter::count(std::string_view hypothesis,
                              std::span<const std::string_view> references) {
  matcher_.clear();
  std::vector<std::string> tokenized(references.size());
  std::unordered_map<std::string_view, uint32_t> ids;  // of words of the references
  std::vector<size_t> lengths;
  std::vector<uint32_t> words;
  for (size_t r = 0; r < references.size(); ++r) {
    tokenized[r] = tokenize_13a(references[r]);
    words.clear();
    for (std::string_view word : split_words(tokenized[r])) {
      words.push_back(ids.try_emplace(word, static_cast<uint32_t>(ids.size())).first->second);
    }
    lengths.push_back(words.size());
    matcher_.add_reference(words);
  }
  const std::string text = tokenize_13a(hypothesis);
  words.clear();
  for (std::string_view word : split_words(text)) {
    auto found = ids.find(word);
    words.push_back(found == ids.end() ? kUnknownWord : found->second);
  }
  std::array<uint32_t, kBleuOrder> matches = {};
  matcher_.match(words, matches);
  BleuCounts counts;
  counts.hypothesis_length = words.size();
  counts.reference_length = nearest_length(lengths, words.size());
  for (size_t n = 0; n < kBleuOrder; ++n) {
    counts.correct[n] = matches[n];
    counts.total[n] = words.size() > n ? words.size() - n : 0;
  }
  return counts;
}

BleuScore bleu_score(const BleuCounts& counts, const BleuOptions& options) {
  BleuScore result;
  result.brevity_penalty = brevity_penalty(counts);
  result.hypothesis_length = counts.hypothesis_length;
  result.reference_length = counts.reference_length;
  if (counts.correct == decltype(counts.correct){}) return result;

  const double value = smoothing_value(options);
  double halvings = 1;
  size_t order = kBleuOrder;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    auto correct = static_cast<double>(counts.correct[n]);
    auto total = static_cast<double>(counts.total[n]);
    if (options.smoothing == BleuSmoothing::kAddK && n > 0) {
      correct += value;
      total += value;
    }
    if (total == 0) break;
    if (options.effective_order) order = n + 1;
    if (correct > 0) {
      result.precisions[n] = 100 * correct / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      halvings *= 2;
      result.precisions[n] = 100 / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      result.precisions[n] = 100 * value / total;
    }
  }
  double logs = 0;
  for (size_t n = 0; n < order; ++n) {
    if (result.precisions[n] == 0) return result;  // a factor of 0
    logs += std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(logs / static_cast<double>(order));
  return result;
}

BleuScore corpus_bleu(const Lines& hypotheses, const std::vector<Lines>& references,
                      const BleuOptions& options) {
  BleuCounter counter;
  BleuCounts sum;
  for_each_sentence(hypotheses, references,
                    [&](std::string_view hypothesis, std::span<const std::string_view> refs) {
                      sum += counter.count(hypothesis, refs);
                    });
  return bleu_score(sum, options);
}

std::string bleu_settings(const BleuOptions& options) {
  std::string smooth;
  switch (options.smoothing) {
    case BleuSmoothing::kNone:
      smooth = "none";
      break;
    case BleuSmoothing::kFloor:
      smooth = format("floor[{:.2f}]", smoothing_value(options));
      break;
    case BleuSmoothing::kAddK:
      smooth = format("add-k[{:.2f}]", smoothing_value(options));
      break;
    case BleuSmoothing::kExp:
      smooth = "exp";
      break;
  }
  return format("case:mixed|eff:{}|tok:13a|smooth:{}", options.effective_order ? "yes" : "no",
                smooth);
}

}  // namespace reigen
