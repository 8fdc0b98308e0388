// Text in, text out: lines are normalised as training did, cut into pieces, searched, and joined.
//
// Every line gets an answer, in order: an empty one for a line without words, and for a line longer
// than the model takes the translations of its parts, joined by spaces. An answer is one line.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/beam_search.h"
#include "text/cleaner.h"
#include "text/vocabulary.h"

namespace reigen {

// How text was made ready for training.
struct TextRules {
  std::string source_language;
  std::string target_language;
  bool nfkc = true;
  bool whitespace = true;
};

struct Translation {
  std::string text;
  double score = 0;  // of a line in parts, the sum of theirs
};

struct TranslationCounts {
  uint64_t lines = 0;
  uint64_t source_tokens = 0;  // ends of sentence included
  uint64_t target_tokens = 0;  // of the best translations
  uint64_t repaired = 0;       // lines that were not UTF-8
  uint64_t cut = 0;            // lines longer than the model takes
};

class Translator {
 public:
  // What is given by reference must outlive the translator.
  Translator(const Device& device, Transformer& model, const Weights& weights,
             const Vocabulary& vocabulary, const TextRules& rules, const DecodeOptions& options,
             int64_t nbest = 1);

  // For each line its translations, best first, one to `nbest` of them. A line in parts joins the
  // best of each, then the second best of each, and so on. `progress` is told how many parts of
  // this call are done.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines,
                                                  const std::function<void(size_t)>& progress = {});

  const TranslationCounts& counts() const { return counts_; }

 private:
  std::vector<uint32_t> encode(std::string line);
  Translation joined(std::span<const std::vector<Hypothesis>> parts, size_t rank) const;

  IncrementalDecoder decoder_;
  const Vocabulary& vocabulary_;
  Cleaner cleaner_;
  Encoder encoder_;
  DecodeOptions options_;
  size_t nbest_;
  TranslationCounts counts_;
};

}  // namespace reigen
