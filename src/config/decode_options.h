// The options of beam search, `decode.*`, and of `reigen translate`.
//
// Training, evaluation and translation declare the section `decode` through the same function.
#pragma once

#include <cstdint>
#include <string>

#include "config/device_options.h"
#include "config/schema.h"

namespace reigen {

struct DecodeOptions {
  int64_t beam = 4;
  double alpha = 0.6;        // log-probability / ((5 + length) / 6)^alpha, as Wu et al. 2016
  double max_ratio = 2;      // output tokens per source token, plus ten
  int64_t batch_tokens = 0;  // hypotheses * source tokens at once; 0: chosen for the device
};

struct TranslateOptions {
  std::string model;
  std::string input = "-";   // standard input
  std::string output = "-";  // standard output
  DecodeOptions decode;
  int64_t nbest = 1;
  int64_t window = 2000;  // lines read ahead
  DeviceOptions device;
  int64_t threads = 0;
  bool quiet = false;
};

void describe(Schema& schema, DecodeOptions& options);
void describe(Schema& schema, TranslateOptions& options);

// Throws ConfigError when options contradict each other.
void check_translate_options(const TranslateOptions& options);

}  // namespace reigen
