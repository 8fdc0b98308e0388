// The normalisation of a model's text: a checkpoint records it, and translation applies it again.
#pragma once

#include <string>

#include "config/prepare_options.h"

namespace reigen {

struct TextRules {
  std::string source_language;
  std::string target_language;
  bool nfkc = true;
  bool whitespace = true;
};

// The options of a Cleaner that normalises by these rules.
CleanOptions normalisation(const TextRules& rules);

}  // namespace reigen
