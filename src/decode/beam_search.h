// Beam search over many sentences at once.
//
// Sources are sorted by length and searched in batches; results come back in the order given. A
// sentence's result depends on the others of its batch by rounding only.
#pragma once

#include <cstdint>
#include <functional>
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

// How many hypotheses times source tokens are searched at once.
int64_t decoding_tokens(const Device& device, const Transformer& model, DType type,
                        const DecodeOptions& options);

// For each source (which ends with eos) its hypotheses, best first, at least one and at most
// `beam`. A search ends when `beam` hypotheses have ended, or at the length limit, where the
// unfinished ones are given if none has ended. Throws DataError for a source the model cannot take
// or a model whose probabilities are not numbers, and Interrupted. `progress` is told how many
// sources are done.
std::vector<std::vector<Hypothesis>> beam_search(const Device& device, Transformer& model,
                                                 const Weights& weights,
                                                 const std::vector<std::vector<uint32_t>>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress = {});

// The same with a decoder whose memory is used again from call to call.
std::vector<std::vector<Hypothesis>> beam_search(IncrementalDecoder& decoder,
                                                 const std::vector<std::vector<uint32_t>>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress = {});

double length_penalty(size_t length, double alpha);

// The most tokens, end included, a translation of `source_tokens` may have.
int64_t longest_output(int64_t source_tokens, const DecodeOptions& options, int64_t model_length);

}  // namespace reigen
