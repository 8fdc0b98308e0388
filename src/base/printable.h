// Text from outside (sentences, host and file names, output of other processes) made safe for a
// terminal: shown, never executed; and for a shell.
//
// Control characters (C0, DEL, C1), bidirectional overrides and isolates (U+202A to U+202E, U+2066
// to U+2069) and bytes that are not UTF-8 become visible escapes: \x1b, \u202e, \xe9.
#pragma once

#include <string>
#include <string_view>

namespace reigen {

// Newlines and tabs stay.
std::string printable(std::string_view text);

// One line: newlines and tabs are escaped, too.
std::string printable_line(std::string_view text);

// One word of a shell, in quotes where it needs them: 'my runs/a'.
std::string shell_word(const std::string& text);

bool is_utf8(std::string_view text);

}  // namespace reigen
