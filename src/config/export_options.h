// The options of `reigen export`.
#pragma once

#include <string>

#include "config/schema.h"

namespace reigen {

enum class ExportFormat { kNone, kHf, kCtranslate2 };
enum class ExportWeights { kFloat32, kInt8 };

struct ExportOptions {
  std::string checkpoint;
  ExportFormat to = ExportFormat::kNone;
  ExportWeights weights = ExportWeights::kFloat32;
  std::string output;
  bool overwrite = false;
};

void describe(Schema& schema, ExportOptions& options);

// Throws ConfigError when the options contradict each other.
void check_export_options(const ExportOptions& options);

}  // namespace reigen
