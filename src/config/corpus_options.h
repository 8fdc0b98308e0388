// The options of `reigen corpus`.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace reigen {

struct CorpusOptions {
  int64_t pairs = 100'000;
  int64_t valid_pairs = 1'000;
  int64_t test_pairs = 1'000;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
};

void describe(Schema& schema, CorpusOptions& options);

}  // namespace reigen
