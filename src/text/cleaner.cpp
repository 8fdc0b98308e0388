#include "text/cleaner.h"

#include <algorithm>
#include <functional>

namespace reigen {
namespace {

struct RuleText {
  const char* name;
  const char* description;
};

constexpr std::array<RuleText, kRuleCount> kRules = {{
    {"malformed", "not a usable pair: a side is missing or marked fuzzy"},
    {"utf8", "not valid UTF-8"},
    {"control", "control characters"},
    {"empty", "a side is empty"},
    {"copy", "the target is a copy of the source"},
    {"script", "letters of the wrong script"},
    {"heldout", "also in valid or test"},
    {"duplicate", "a repetition of an earlier pair"},
    {"score", "the share with the lowest scores of a model (clean.score)"},
    {"ratio", "one side has many more pieces than the other"},
    {"pieces", "too few or too many pieces on a side"},
}};

// Good translations of short lines differ in length ("Ja." for "Yes, of course."): this is added to
// both sides.
constexpr double kRatioOffset = 5;

}  // namespace

const char* rule_name(Rule rule) { return kRules[static_cast<size_t>(rule)].name; }
const char* rule_description(Rule rule) { return kRules[static_cast<size_t>(rule)].description; }

Cleaner::Cleaner(const CleanOptions& options, const std::string& source_language,
                 const std::string& target_language, bool cut_into_pieces)
    : options_(options),
      nfkc_(options.nfkc && !cut_into_pieces),
      source_script_(source_language),
      target_script_(target_language) {}

Rule Cleaner::check_characters(const std::string& text) const {
  if (options_.utf8 && !is_valid_utf8(text)) return Rule::kUtf8;
  return options_.control && has_control(text) ? Rule::kControl : Rule::kKept;
}

Rule Cleaner::check_lengths(size_t source_pieces, size_t target_pieces) const {
  auto [least, most] = std::minmax(source_pieces, target_pieces);
  double ratio =
      (static_cast<double>(most) + kRatioOffset) / (static_cast<double>(least) + kRatioOffset);
  if (options_.max_ratio > 0 && ratio > options_.max_ratio) return Rule::kRatio;
  bool too_long = options_.max_pieces > 0 && most > static_cast<size_t>(options_.max_pieces);
  bool too_short = least < static_cast<size_t>(options_.min_pieces);
  return too_long || too_short ? Rule::kPieces : Rule::kKept;
}

void Cleaner::normalise(std::string& text) const {
  if (!is_valid_utf8(text)) text = repair_utf8(text);
  if (nfkc_) text = to_nfkc(text);
  if (options_.whitespace) text = squeeze_whitespace(text);
}

Rule Cleaner::clean(std::string& source, std::string& target) const {
  for (const std::string& text : {std::cref(source), std::cref(target)}) {
    Rule rule = check_characters(text);
    if (rule != Rule::kKept) return rule;
  }
  normalise(source);
  normalise(target);
  if (options_.empty && (source.empty() || target.empty())) return Rule::kEmpty;
  if (options_.copy && source == target) return Rule::kCopy;
  if (options_.min_script > 0) {
    bool wrong = source_script_.share(source) < options_.min_script ||
                 target_script_.share(target) < options_.min_script;
    if (wrong) return Rule::kScript;
  }
  return Rule::kKept;
}

}  // namespace reigen
