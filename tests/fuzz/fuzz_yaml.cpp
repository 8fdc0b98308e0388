// YAML for `reigen prepare`: any text gives options or a reigen::Error, and accepted options can be
// recorded and printed.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "config/prepare_options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  PrepareOptions options;
  Schema schema("prepare", "Prepares.");
  describe(schema, options);
  try {
    schema.parse_yaml(std::string(reinterpret_cast<const char*>(data), size), "run.yaml");
  } catch (const Error&) {
    return 0;
  }
  if (pretty(recorded_options(options)).empty()) std::abort();
  return 0;
}
