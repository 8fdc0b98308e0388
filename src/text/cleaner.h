// The cleaning rules, by name. Each pair is normalised, then meets the rules in the order below;
// the first that objects names the drop. A rule is pure: the same pair always gets the same answer.
#pragma once

#include <array>
#include <string>

#include "config/options.h"
#include "text/unicode.h"

namespace reigen {

// In the order they are applied. kMalformed comes from the reader, kHeldout and kDuplicate need
// to know other pairs, kRatio and kPieces need a vocabulary: the caller asks those.
enum class Rule {
  kMalformed,
  kUtf8,
  kControl,
  kEmpty,
  kCopy,
  kScript,
  kHeldout,
  kDuplicate,
  kRatio,
  kPieces,
  kKept,
};
constexpr int kRuleCount = static_cast<int>(Rule::kKept);

const char* rule_name(Rule rule);         // "ratio", as options and manifest spell it
const char* rule_description(Rule rule);  // "one side has many more pieces than the other"

class Cleaner {
 public:
  // `cut_into_pieces`: the text is already tokenised, so normalising would break its pieces.
  Cleaner(const CleanOptions& options, const std::string& source_language,
          const std::string& target_language, bool cut_into_pieces);

  // Normalises both sides in place; kKept when no rule objects.
  Rule clean(std::string& source, std::string& target) const;

  // The last two rules, for a pair that no other rule objected to.
  Rule check_lengths(size_t source_pieces, size_t target_pieces) const;

  // The normalisation alone: what valid and test go through, since nothing of them is dropped.
  void normalise(std::string& text) const;

 private:
  Rule check_characters(const std::string& text) const;

  CleanOptions options_;
  bool nfkc_;
  ScriptTest source_script_;
  ScriptTest target_script_;
};

}  // namespace reigen
