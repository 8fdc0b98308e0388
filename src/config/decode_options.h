// PROVISIONAL
#pragma once
#include "config/schema.h"
namespace reigen {
struct DecodeOptions {
  int64_t beam = 4;
  double alpha = 0.6;
  double max_ratio = 2;
  int64_t batch_tokens = 4096;
};
void describe(Schema& schema, DecodeOptions& options);
}  // namespace reigen
