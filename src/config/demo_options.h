// The options of `reigen demo`.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace reigen {

struct DemoOptions {
  std::string output;
  int64_t pairs = 100'000;
  int64_t vocab_size = 2'000;
  int64_t steps = 900;
  int64_t threads = 0;
  bool overwrite = false;
};

void describe(Schema& schema, DemoOptions& options);

}  // namespace reigen
