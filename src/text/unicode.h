// Text as Unicode: validity, normalisation, white space, scripts. A door to ICU.
//
// Every function takes and returns UTF-8 and has a fast path for plain ASCII, which most lines of
// most corpora are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reigen {

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

// Bad bytes become U+FFFD.
std::string repair_utf8(std::string_view text);

// The functions below expect valid UTF-8.

// Control characters (category Cc) other than white space.
bool has_control(std::string_view text);

std::string to_nfkc(std::string_view text);

// Runs of Unicode white space become one space; none is left at either end.
std::string squeeze_whitespace(std::string_view text);

// Every character that some program treats as the end of a line (LF, VT, FF, CR, FS to RS, NEL,
// U+2028, U+2029) becomes a space.
std::string without_line_breaks(std::string_view text);

// Whether the first character is a combining mark, which modifies the character before it.
bool starts_with_mark(std::string_view text);

// The scripts in which a language is written, from ICU's locale data.
class ScriptTest {
 public:
  explicit ScriptTest(const std::string& language);

  // The share of letters that belong to the language's scripts; 1 if there are no letters.
  double share(std::string_view text) const;

 private:
  static constexpr int kMaxScripts = 8;
  int scripts_[kMaxScripts] = {};
  int count_ = 0;
  bool latin_ = false;
};

// Whether ICU knows the language (`en`, `pt-BR`, `zh-Hant`).
bool is_known_language(const std::string& language);

}  // namespace reigen
