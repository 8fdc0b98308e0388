// The options of `reigen inspect`.
#pragma once

#include <string>

#include "config/schema.h"

namespace reigen {

struct InspectOptions {
  std::string path;
  bool json = false;
  bool verify = false;
};

void describe(Schema& schema, InspectOptions& options);

}  // namespace reigen
