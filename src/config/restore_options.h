// The options of `reigen restore`.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace reigen {

struct RestoreOptions {
  std::string copy;
  std::string run;
  std::string ssh_user;
  int64_t ssh_port = 0;
};

void describe(Schema& schema, RestoreOptions& options);

}  // namespace reigen
