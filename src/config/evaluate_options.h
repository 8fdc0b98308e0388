// The options of `reigen evaluate`, and the metrics it knows by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

enum class ScoreMetric { kBleu, kChrf, kChrfPlusPlus };

struct EvaluateOptions {
  std::string hypotheses;
  std::vector<std::string> references;
  std::string baseline;  // empty for none
  std::vector<ScoreMetric> metrics = {ScoreMetric::kBleu, ScoreMetric::kChrf};
  bool bootstrap = true;
  int64_t resamples = 1000;
  int64_t seed = 12345;
  bool json = false;
};

void describe(Schema& schema, EvaluateOptions& options);

}  // namespace reigen
