// Log-probabilities of given translations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "eval/corpus.h"
#include "model/transformer.h"
#include "text/cleaner.h"
#include "text/text_rules.h"
#include "text/vocabulary.h"

namespace reigen {

struct PairScore {
  std::vector<uint32_t> ids;   // of the translation, end of sentence included
  std::vector<double> tokens;  // the natural logarithm of each one's probability
  bool too_long = false;       // for the model: it has no probability
  double log_probability() const;
};

// Text in, scores out: pairs are normalised as training did, cut into pieces and scored in batches.
class PairScorer {
 public:
  // All references must outlive the scorer.
  PairScorer(const Device& device, Transformer& model, const Weights& weights,
             const Vocabulary& vocabulary, const TextRules& rules);

  // For each pair its score, in order; `sources` and `targets` have equally many lines.
  std::vector<PairScore> score(const Lines& sources, const Lines& targets);

 private:
  const Device& device_;
  Transformer& model_;
  const Weights& weights_;
  const Vocabulary& vocabulary_;
  Cleaner cleaner_;
  std::optional<uint32_t> tag_;
  Encoder source_encoder_;
  Encoder target_encoder_;
  Arena arena_;
};

}  // namespace reigen
