#include "eval/chrf.h"

#include <unordered_map>

#include "base/format.h"
#include "eval/segment.h"

namespace reigen {
namespace {

using WordIds = std::unordered_map<std::string_view, uint32_t>;

// The orders of one kind of symbol. As sacreBLEU has it, n-grams of the hypothesis do not count
// where the reference is too short to have any of that length.
void count_orders(NgramMatcher& matcher, std::span<const uint32_t> hypothesis,
                  std::span<const uint32_t> reference, std::span<ChrfOrder> orders) {
  matcher.clear();
  matcher.add_reference(reference);
  std::vector<uint32_t> matches(orders.size());
  matcher.match(hypothesis, matches);
  for (size_t n = 0; n < orders.size() && n < reference.size(); ++n) {
    orders[n].hypothesis = hypothesis.size() > n ? hypothesis.size() - n : 0;
    orders[n].reference = reference.size() - n;
    orders[n].matches = matches[n];
  }
}

}  // namespace

ChrfCounter::ChrfCounter(const ChrfOptions& options)
    : options_(options), characters_(kChrfCharacterOrder), words_(options.word_order) {}

ChrfCounts ChrfCounter::count_one(std::string_view hypothesis, std::string_view reference) {
  ChrfCounts counts(options_.orders());
  std::span<ChrfOrder> all(counts);
  count_orders(characters_, characters(hypothesis), characters(reference),
               all.first(kChrfCharacterOrder));
  if (options_.word_order == 0) return counts;
  WordIds ids;
  std::vector<uint32_t> reference_words;
  for (std::string_view word : chrf_words(reference)) {
    auto id = static_cast<uint32_t>(ids.size());
    reference_words.push_back(ids.try_emplace(word, id).first->second);
  }
  std::vector<uint32_t> hypothesis_words;
  for (std::string_view word : chrf_words(hypothesis)) {
    auto found = ids.find(word);
    hypothesis_words.push_back(found == ids.end() ? kUnknownWord : found->second);
  }
  count_orders(words_, hypothesis_words, reference_words, all.subspan(kChrfCharacterOrder));
  return counts;
}

ChrfCounts ChrfCounter::count(std::string_view hypothesis,
                              std::span<const std::string_view> references) {
  ChrfCounts best = count_one(hypothesis, references[0]);
  for (std::string_view reference : references.subspan(1)) {
    ChrfCounts counts = count_one(hypothesis, reference);
    if (chrf_score(counts, options_) > chrf_score(best, options_)) best = counts;
  }
  return best;
}

double chrf_score(const ChrfCounts& counts, const ChrfOptions& options) {
  double precision = 0;
  double recall = 0;
  size_t orders = 0;
  for (const ChrfOrder& order : counts) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.matches) / static_cast<double>(order.hypothesis);
    recall += static_cast<double>(order.matches) / static_cast<double>(order.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= static_cast<double>(orders);
  recall /= static_cast<double>(orders);
  const auto factor = static_cast<double>(options.beta * options.beta);
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

double corpus_chrf(const Lines& hypotheses, const std::vector<Lines>& references,
                   const ChrfOptions& options) {
  ChrfCounter counter(options);
  ChrfCounts sum(options.orders());
  for_each_sentence(hypotheses, references,
                    [&](std::string_view hypothesis, std::span<const std::string_view> refs) {
                      ChrfCounts counts = counter.count(hypothesis, refs);
                      for (size_t n = 0; n < sum.size(); ++n) {
                        sum[n].hypothesis += counts[n].hypothesis;
                        sum[n].reference += counts[n].reference;
                        sum[n].matches += counts[n].matches;
                      }
                    });
  return chrf_score(sum, options);
}

std::string chrf_name(const ChrfOptions& options) {
  return format("chrF{}{}", options.beta, std::string(options.word_order, '+'));
}

std::string chrf_settings(const ChrfOptions& options) {
  return format("case:mixed|eff:yes|nc:{}|nw:{}|space:no", kChrfCharacterOrder, options.word_order);
}

}  // namespace reigen
