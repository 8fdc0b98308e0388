// Where to compute and in which precision: the same two options for every command that runs a
// model.
#pragma once

#include <optional>
#include <string>

#include "config/schema.h"

namespace reigen {

enum class Precision { kAuto, kFp32, kTf32, kBf16, kFp16 };

struct DeviceOptions {
  std::string device = "auto";
  Precision precision = Precision::kAuto;
};

void describe(Schema& schema, DeviceOptions& options);

// "auto", "cpu", or which GPU; throws ConfigError for anything else.
struct DeviceChoice {
  bool automatic = false;
  std::optional<int> gpu;  // none: the CPU, or for auto whatever there is
};
DeviceChoice parse_device(const std::string& text);

const char* name_of(Precision precision);
Precision precision_of(const std::string& name);  // throws ConfigError

}  // namespace reigen
