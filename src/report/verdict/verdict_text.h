// A verdict as a reader gets it, and the small words that all verdicts are written with.
//
// The values of verdicts are in machine/ (what limited the run) and learning/ (is it trained); each
// folder makes its sentences in one place, its wording.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reigen {

enum class Confidence : uint8_t { kNone, kLow, kMedium, kHigh };
const char* id_of(Confidence confidence);  // empty for kNone

inline constexpr const char* kCannotTell = "cannot tell";  // a verdict without evidence

struct VerdictText {
  std::string about;       // "bottleneck"
  std::string verdict;     // "network", or "cannot tell"
  std::string since;       // "from step 246 on (23 s after the start)"; empty: the whole run
  std::string confidence;  // high, medium, low; empty when it cannot tell
  std::string because;     // the evidence, or why it cannot tell
  std::string rule;
  std::string advice;   // may be empty
  std::string summary;  // the verdict as one sentence; may be empty
};

// "network from step 246 on (23 s after the start) (confidence high)"
std::string headline(const VerdictText& verdict);

// Joins clauses with semicolons.
void append_clause(std::string& text, const std::string& more);
// The clauses of evidence, between semicolons.
std::vector<std::string> clauses_of(const std::string& text);
std::string sentence_of(std::string text);  // with a capital and a full stop
std::string percent_text(double share);     // "21%"

}  // namespace reigen
