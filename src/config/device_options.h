// The compute device and its precision: the same two options for every command that runs a model.
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

struct DeviceChoice {
  bool automatic = false;
  std::optional<int> gpu;  // none: the CPU, or not chosen yet when automatic
};
// "auto", "cpu", "cuda" or "cuda:1"; throws ConfigError for anything else.
DeviceChoice parse_device(const std::string& text);

const char* name_of(Precision precision);
Precision precision_of(const std::string& name);  // throws ConfigError

}  // namespace reigen
