// The options of `reigen attach`.
#pragma once

#include <string>

#include "config/schema.h"

namespace reigen {

struct AttachOptions {
  std::string run;
};

void describe(Schema& schema, AttachOptions& options);

}  // namespace reigen
