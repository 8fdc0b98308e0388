// The options of `reigen import`.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

struct ImportOptions {
  std::vector<std::string> inputs;  // a directory, or files
  std::string source;               // languages; empty: those that the files name
  std::string target;
  std::string output;
  bool overwrite = false;
};

void describe(Schema& schema, ImportOptions& options);

}  // namespace reigen
