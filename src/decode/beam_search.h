// Beam search, or sampling, over many sentences at once.
//
// A sentence that has ended is replaced by the next one, so that every step has as many rows as the
// memory allows. The other sentences of a step change a sentence's result by rounding only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "config/decode_options.h"
#include "device/device.h"
#include "model/incremental.h"
#include "model/transformer.h"

namespace reigen {

struct Hypothesis {
  std::vector<uint32_t> ids;  // without end of sentence
  double score = 0;           // log_probability / ((5 + length) / 6)^alpha; length counts the end
  double log_probability = 0;
};

struct SpecialIds {
  uint32_t bos = 0;
  uint32_t eos = 0;
};

// Hypotheses times source tokens that are searched at once.
int64_t decoding_tokens(const Device& device, const Transformer& model, DType type,
                        const DecodeOptions& options);

// Facts about the sources of a search beside their tokens. Either list is empty or has one entry
// for each source.
struct SourceExtras {
  std::vector<uint64_t> keys;                   // for random choices; without: their places
  std::vector<std::vector<uint32_t>> prefixes;  // forced beginnings of their translations
};

// For each source (which ends with eos) its hypotheses, best first, at least one and at most
// `beam`. A search ends when `beam` hypotheses have ended, or at the length limit, where the
// unfinished ones are returned if none has ended. Throws DataError for a source that is too long
// for the model, CheckpointError for a model whose probabilities are not finite, and Interrupted.
// With options.sampling they are `beam` draws, which may be equal; one that reaches the length
// limit ends there. `progress` is called with the number of finished sources.
std::vector<std::vector<Hypothesis>> beam_search(const Device& device, Transformer& model,
                                                 const Weights& weights,
                                                 const std::vector<std::vector<uint32_t>>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress = {});

// Decoders that reuse their memory from call to call: one, or those of an ensemble of models with
// the same vocabularies, whose probabilities are averaged.
using Decoders = std::vector<IncrementalDecoder*>;

std::vector<std::vector<Hypothesis>> beam_search(const Decoders& decoders,
                                                 const std::vector<std::vector<uint32_t>>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress = {},
                                                 const SourceExtras& extras = {});

// A source, which ends with eos. `number` is the feed's own, `key` decides random choices.
struct SearchSource {
  const std::vector<uint32_t>* ids = nullptr;
  size_t number = 0;
  uint64_t key = 0;
  const std::vector<uint32_t>* prefix = nullptr;  // forced beginning of the translation; or null
};

// Sources that are still to come.
struct SearchRest {
  int64_t sentences = 0;
  int64_t tokens = 0;
};

// The source of a search's sentences, and the receiver of their hypotheses.
class SearchFeed {
 public:
  virtual ~SearchFeed() = default;

  // The next source, whose ids stay valid until found() is called for it. Nothing: the feed has
  // ended; without `wait` also when there is none yet.
  virtual std::optional<SearchSource> next(bool wait) = 0;
  virtual bool ended() const = 0;
  // Nothing where it is not known yet.
  virtual std::optional<SearchRest> rest() const { return std::nullopt; }

  // Hypotheses of a source, best first.
  virtual void found(size_t number, std::vector<Hypothesis> hypotheses) = 0;
};

// Searches until the feed has ended.
void beam_search(const Decoders& decoders, SearchFeed& feed, SpecialIds special,
                 const DecodeOptions& options);

// Numbers of the sources, longest first: the last sentences to be searched, which have no others
// beside them, are short.
std::vector<size_t> by_length(const std::vector<std::vector<uint32_t>>& sources);

double length_penalty(size_t length, double alpha);

// Length limit of a translation of `source_tokens`, in tokens, end included.
int64_t longest_output(int64_t source_tokens, const DecodeOptions& options, int64_t model_length);

}  // namespace reigen
