// The options of beam search, `decode.*`, and of `reigen translate`.
//
// Training, evaluation and translation declare the section `decode` through the same function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/device_options.h"
#include "config/schema.h"

namespace reigen {

// Translations are drawn from the model's distribution, token by token, instead of searched.
struct SamplingOptions {
  bool on = false;
  double temperature = 1;  // logits are divided by it
  int64_t top_k = 0;       // of the likeliest tokens; 0: of all
  double top_p = 1;        // of the fewest tokens that have this share of the probability
  int64_t seed = 1;
};

// The options from `sampling` on are those of `translate` only; the choice of tokens is then made
// on the host, also for a model on a GPU (decode/token_choice.h).
struct DecodeOptions {
  int64_t beam = 4;
  double alpha = 0.6;        // log-probability / ((5 + length) / 6)^alpha, as Wu et al. 2016
  double max_ratio = 2;      // output tokens per source token, plus ten
  int64_t batch_tokens = 0;  // hypotheses * source tokens at once; 0: chosen for the device
  SamplingOptions sampling;
  int64_t no_repeat_ngram = 0;   // tokens; 0: anything may be repeated
  int64_t min_length = 0;        // tokens, end of sentence not counted
  bool forced_prefixes = false;  // sources may have one

  bool plain() const {
    return !sampling.on && no_repeat_ngram == 0 && min_length == 0 && !forced_prefixes;
  }
};

struct TranslateOptions {
  std::string model;
  std::string to;                     // target language; empty: the only one
  std::string input = "-";            // standard input
  std::string output = "-";           // standard output
  std::vector<std::string> ensemble;  // further models
  std::string prefix;                 // file of forced beginnings, one per line; empty: none
  DecodeOptions decode;
  int64_t nbest = 1;
  bool json = false;
  int64_t window = 2000;  // lines read ahead
  DeviceOptions device;
  int64_t threads = 0;
  bool quiet = false;
  GivenKeys given;  // by command line and --config
};

void describe(Schema& schema, DecodeOptions& options);
void describe(Schema& schema, TranslateOptions& options);

// Completes the options; throws ConfigError when they contradict each other.
TranslateOptions resolve(TranslateOptions options);

}  // namespace reigen
