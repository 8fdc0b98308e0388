// Options of fine-tuning: a run that begins with the weights of a checkpoint.
#pragma once

#include <string>

#include "config/schema.h"

namespace reigen {

struct FineTuneOptions {
  std::string from;        // run or checkpoint; empty: weights by the seed
  bool optimizer = false;  // continue its optimizer, too
  std::string freeze;      // parts that are not trained, separated by commas (optim/frozen.h)
  std::string old_data;    // dataset whose validation set is scored, too; empty or "none" for none
};

// eval.old-data where nothing is scored although a checkpoint records its dataset.
inline constexpr const char* kNoOldData = "none";

void describe(Schema& schema, FineTuneOptions& options);

// Throws ConfigError when options contradict each other.
void check_fine_tune_options(const FineTuneOptions& options, bool shards_optimizer);

}  // namespace reigen
