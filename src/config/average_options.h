// The options of `reigen average`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

struct AverageOptions {
  std::vector<std::string> checkpoints;
  std::string run;
  int64_t last = 5;
  std::string output;
  bool overwrite = false;
};

void describe(Schema& schema, AverageOptions& options);

}  // namespace reigen
