#include "report/verdict/verdict_text.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"

namespace reigen {

const char* id_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::kHigh:
      return "high";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kLow:
      return "low";
    case Confidence::kNone:
      break;
  }
  return "";
}

std::string headline(const VerdictText& v) {
  std::string text = v.verdict;
  if (!v.since.empty()) text += " " + v.since;
  if (!v.confidence.empty()) text += format(" (confidence {})", v.confidence);
  return text;
}

void append_clause(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

std::vector<std::string> clauses_of(const std::string& text) {
  constexpr std::string_view kBetween = "; ";
  std::vector<std::string> clauses;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(kBetween, begin), text.size());
    clauses.push_back(text.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  return clauses;
}

std::string sentence_of(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

std::string percent_text(double share) { return format("{:.0f}%", 100 * share); }

}  // namespace reigen
