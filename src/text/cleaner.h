// The cleaning rules, by name. Each pair is normalised, then checked by the rules in the order
// below; the first rule that rejects it is counted. A rule is pure: it depends on nothing but the
// pair.
#pragma once

#include <array>
#include <string>

#include "config/prepare_options.h"
#include "text/unicode.h"

namespace reigen {

// In the order of application. Cleaner::clean applies kUtf8 to kScript. kMalformed comes from the
// reader, kHeldout and kDuplicate need other pairs, kRatio and kPieces need a vocabulary: the
// caller applies those.
enum class Rule {
  kMalformed,
  kUtf8,
  kControl,
  kEmpty,
  kCopy,
  kScript,
  kHeldout,
  kDuplicate,
  kScore,  // by a model (clean.score), not by a Cleaner
  kRatio,
  kPieces,
  kKept,
};
constexpr int kRuleCount = static_cast<int>(Rule::kKept);

const char* rule_name(Rule rule);         // "ratio", as options and manifest spell it
const char* rule_description(Rule rule);  // "one side has many more pieces than the other"

class Cleaner {
 public:
  // `cut_into_pieces`: the text is already cut into pieces, which NFKC would break.
  Cleaner(const CleanOptions& options, const std::string& source_language,
          const std::string& target_language, bool cut_into_pieces);

  // Normalises both sides in place; returns the rule that rejects the pair, or kKept.
  Rule clean(std::string& source, std::string& target) const;

  // The last two rules, kRatio and kPieces.
  Rule check_lengths(size_t source_pieces, size_t target_pieces) const;

  // The normalisation alone, for valid and test, from which nothing is dropped.
  void normalise(std::string& text) const;

 private:
  Rule check_characters(const std::string& text) const;

  CleanOptions options_;
  bool nfkc_;
  ScriptTest source_script_;
  ScriptTest target_script_;
};

}  // namespace reigen
