// The options of `reigen quantize`.
#pragma once

#include <string>

#include "config/schema.h"

namespace reigen {

struct QuantizeOptions {
  std::string model;
  std::string output;
  bool overwrite = false;
};

void describe(Schema& schema, QuantizeOptions& options);

}  // namespace reigen
