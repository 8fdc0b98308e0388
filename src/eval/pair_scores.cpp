#include "eval/pair_scores.h"

#include <algorithm>
#include <numeric>

#include "base/interrupt.h"

namespace reigen {
namespace {

constexpr size_t kScoredTokens = 4096;  // of source and target per batch

}  // namespace

double PairScore::log_probability() const {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

PairScorer::PairScorer(const Device& device, Transformer& model, const Weights& weights,
                       const Vocabulary& vocabulary, const TextRules& rules)
    : device_(device),
      model_(model),
      weights_(weights),
      vocabulary_(vocabulary),
      cleaner_(normalisation(rules), rules.source_language, rules.target_language,
               !vocabulary.cuts_text()),
      tag_(rules.tag),
      source_encoder_(vocabulary.source(), rules.line_tags()),
      target_encoder_(vocabulary),
      arena_(device.kind()) {}

std::vector<PairScore> PairScorer::score(const Lines& sources, const Lines& targets) {
  const size_t count = sources.size();
  const auto most = static_cast<size_t>(model_.options().max_length);
  std::vector<PairScore> scores(count);
  std::vector<std::vector<uint32_t>> source_ids(count);
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    std::string source = sources[i];
    std::string target = targets[i];
    cleaner_.normalise(source);
    cleaner_.normalise(target);
    if (tag_) source_ids[i].push_back(*tag_);
    source_encoder_.encode(source, source_ids[i]);
    source_ids[i].push_back(vocabulary_.source().eos());
    target_encoder_.encode(target, scores[i].ids);
    scores[i].ids.push_back(vocabulary_.eos());
    scores[i].too_long = std::max(source_ids[i].size(), scores[i].ids.size()) > most;
    if (!scores[i].too_long) order.push_back(i);
  }
  auto length = [&](size_t i) { return source_ids[i].size() + scores[i].ids.size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<float> token_nll;
  for (size_t first = 0; first < order.size();) {
    check_interrupt();
    PackedBatch batch;
    size_t last = first;
    for (size_t tokens = 0; last < order.size(); ++last) {
      const std::vector<uint32_t>& source = source_ids[order[last]];
      const std::vector<uint32_t>& target = scores[order[last]].ids;
      tokens += source.size() + target.size();
      if (last > first && tokens > kScoredTokens) break;
      batch.add(source, target, vocabulary_.bos());
    }
    model_.evaluate(device_, batch, weights_, 0, arena_, &token_nll);
    size_t at = 0;
    for (; first < last; ++first) {
      PairScore& score = scores[order[first]];
      for (size_t t = 0; t < score.ids.size(); ++t) score.tokens.push_back(-token_nll[at++]);
    }
  }
  return scores;
}

}  // namespace reigen
