// The options of `reigen evaluate`, and the names of its metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/decode_options.h"
#include "config/device_options.h"
#include "config/schema.h"

namespace reigen {

enum class ScoreMetric { kBleu, kChrf, kChrfPlusPlus };

// Either `hypotheses` are scored, or a `model` translates first: a split of `data`, or `sources`.
struct EvaluateOptions {
  std::string hypotheses;
  std::string model;
  std::string to;    // target language; empty: the only one, or all of a dataset
  std::string data;  // empty: the run's own
  std::string split = "test";
  std::string sources;
  std::string output;
  std::vector<std::string> references;
  std::string baseline;  // empty for none
  std::vector<ScoreMetric> metrics = {ScoreMetric::kBleu, ScoreMetric::kChrf};
  bool bootstrap = true;
  int64_t resamples = 1000;
  int64_t seed = 12345;
  DeviceOptions device;
  int64_t threads = 0;
  bool json = false;
  DecodeOptions decode;
};

void describe(Schema& schema, EvaluateOptions& options);

// Throws ConfigError when neither or both are given, or options contradict each other.
void check_evaluate_options(const EvaluateOptions& options);

}  // namespace reigen
