// The options of `reigen score`.
#pragma once

#include <cstdint>
#include <string>

#include "config/device_options.h"
#include "config/schema.h"

namespace reigen {

struct ScoreOptions {
  std::string model;
  std::string to;  // target language; empty: the only one
  std::string sources;
  std::string targets;
  std::string output = "-";  // standard output
  bool normalize = false;
  bool tokens = false;
  int64_t window = 2000;  // lines read ahead
  DeviceOptions device;
  int64_t threads = 0;
  bool quiet = false;
};

void describe(Schema& schema, ScoreOptions& options);

}  // namespace reigen
