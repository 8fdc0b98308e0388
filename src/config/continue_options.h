// The options of `reigen continue`.
#pragma once

#include "config/schema.h"

namespace reigen {

struct ContinueOptions {
  int64_t process = 0;
};

void describe(Schema& schema, ContinueOptions& options);

}  // namespace reigen
