// The form of a model's text: its normalisation, which a checkpoint records and translation applies
// again, and the tag of the chosen target language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/prepare_options.h"
#include "text/vocabulary.h"

namespace reigen {

struct TextRules {
  std::string source_language;
  std::string target_language;
  bool nfkc = true;
  bool whitespace = true;
  std::optional<uint32_t> tag;  // the first token of each source (text/language_tag.h)

  // With a tag, one that a line begins with is text.
  LineTags line_tags() const { return tag ? LineTags::kText : LineTags::kTaken; }
};

// The options of a Cleaner that normalises by these rules.
CleanOptions normalisation(const TextRules& rules);

}  // namespace reigen
