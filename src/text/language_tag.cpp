#include "text/language_tag.h"

#include "base/format.h"

namespace reigen {
namespace {

constexpr std::string_view kOpen = ">>";
constexpr std::string_view kClose = "<<";

}  // namespace

std::string language_tag(std::string_view language) {
  return format("{}{}{}", kOpen, language, kClose);
}

bool is_language_tag(std::string_view piece) {
  return piece.size() > kOpen.size() + kClose.size() && piece.starts_with(kOpen) &&
         piece.ends_with(kClose);
}

std::string_view language_of_tag(std::string_view tag) {
  return tag.substr(kOpen.size(), tag.size() - kOpen.size() - kClose.size());
}

}  // namespace reigen
