#include "base/printable.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/format.h"

namespace reigen {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 where the text is not UTF-8
};

// The first character of a text that is not empty. Overlong forms, surrogates and codes above
// U+10FFFF are not UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

bool is_bidi_control(uint32_t code) {
  return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(std::string_view text, std::string_view unchanged) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const size_t bytes = std::max<size_t>(c.bytes, 1);
    if (c.bytes == 0) {
      out += format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    } else if (c.bytes == 1 && is_control(c.code) && unchanged.find(text[0]) == unchanged.npos) {
      out += format("\\x{:02x}", c.code);
    } else if (c.bytes > 1 && (is_control(c.code) || is_bidi_control(c.code))) {
      out += format("\\u{:04x}", c.code);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }
std::string printable_line(std::string_view text) { return escaped(text, ""); }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.bytes == 0) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string shell_word(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+=:@,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace reigen
