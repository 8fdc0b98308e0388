// Text in, text out: lines are normalised as training did, cut into pieces, searched, and joined.
//
// Each input line gives one output line, in order: an empty one for a line without words; for a
// line longer than the model accepts, the translations of its fragments joined by spaces. Where the
// rules have the tag of a target language, each source begins with it.
//
// A translation never has <unk>: the first one is replaced by the first unknown piece of the
// source, and so on; those beyond the number of unknown pieces are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/beam_search.h"
#include "text/cleaner.h"
#include "text/text_rules.h"
#include "text/vocabulary.h"

namespace reigen {

struct Translation {
  std::string text;
  // Of a line in fragments their sums.
  double score = 0;
  double log_probability = 0;
  uint64_t tokens = 0;  // ends of sentence included
};

struct TranslationCounts {
  uint64_t lines = 0;
  uint64_t source_tokens = 0;  // ends of sentence included
  uint64_t target_tokens = 0;  // of the best translations
  uint64_t repaired = 0;       // lines that were not UTF-8
  uint64_t cut = 0;            // lines longer than the model accepts
};

// Lines cut into pieces, as a search reads them.
struct EncodedLines {
  std::vector<std::vector<uint32_t>> sources;     // fragments, each with its end of sentence
  std::vector<size_t> first_source = {0};         // of each line, and their number
  SourceExtras extras;                            // of the fragments
  std::vector<std::vector<std::string>> unknown;  // unknown pieces of each fragment, as text
  TranslationCounts counts;

  size_t lines() const { return first_source.size() - 1; }
};

class Translator {
 public:
  // All references must outlive the translator.
  Translator(const Device& device, Transformer& model, const Weights& weights,
             const Vocabulary& vocabulary, const TextRules& rules, const DecodeOptions& options,
             int64_t nbest = 1);

  // Makes an ensemble with another model of the same vocabularies.
  void add_model(const Device& device, Transformer& model, const Weights& weights);

  // For each line its translations, best first, one to `nbest` of them. For a line in fragments the
  // best of each fragment are joined, then the second best, and so on. `progress` is called with
  // the number of finished fragments of this call. `prefixes`: forced beginnings of the
  // translations, for none or for all lines; `first_line`: the number of the first line.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines,
                                                  const std::function<void(size_t)>& progress = {},
                                                  uint64_t first_line = 0,
                                                  std::span<const std::string> prefixes = {});

  // The three parts of translate(), for lines that come in a stream. Each may run on a thread of
  // its own, at the same time as the others.
  EncodedLines encode(std::span<const std::string> lines, uint64_t first_line = 0,
                      std::span<const std::string> prefixes = {});
  void search(SearchFeed& feed);
  std::vector<std::vector<Translation>> join(const EncodedLines& lines,
                                             std::span<const std::vector<Hypothesis>> found);

  // Of all lines that were joined.
  const TranslationCounts& counts() const { return counts_; }

 private:
  struct LineIds {
    std::vector<uint32_t> ids;
    std::vector<std::string> unknown;
    bool repaired = false;
  };
  LineIds ids_of(std::string line, Encoder& encoder) const;
  Translation joined(std::span<const std::vector<Hypothesis>> fragments,
                     std::span<const std::vector<std::string>> unknown, size_t place) const;
  Decoders decoders() const;
  size_t most_tokens() const;  // of a source, end included

  std::vector<std::unique_ptr<IncrementalDecoder>> decoders_;
  const Vocabulary& vocabulary_;
  Cleaner cleaner_;
  std::optional<uint32_t> tag_;    // the first token of each source
  std::vector<Encoder> encoders_;  // one for each thread
  Encoder target_encoder_;         // of prefixes
  DecodeOptions options_;
  size_t nbest_;
  TranslationCounts counts_;
};

}  // namespace reigen
