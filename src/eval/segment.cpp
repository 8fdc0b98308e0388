#include "eval/segment.h"

#include <algorithm>

namespace reigen {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
};

Character character_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0xC0) return {lead, 1};
  size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  bytes = std::min(bytes, text.size() - at);
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  }
  return {code, bytes};
}

bool is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

// Every ASCII mark but ' , - . which 13a treats depending on their neighbours, or not at all.
bool is_symbol(char c) {
  return (c >= '!' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_punctuation(char c) { return is_symbol(c) || c == '\'' || (c >= ',' && c <= '.'); }

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (text[last] & 0xC0) == 0x80) --last;
    if (!is_space(character_at(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// The part of 13a for all languages. The order matters: "&amp;lt;" becomes "<", "&amp;quot;" does
// not become a quote.
std::string unescape(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  if (text.find('&') != std::string::npos) {
    replace_all(text, "&quot;", "\"");
    replace_all(text, "&amp;", "&");
    replace_all(text, "&lt;", "<");
    replace_all(text, "&gt;", ">");
  }
  return text;
}

// Substitution as by a regular expression of two characters: from the left, without overlap, so of
// "..." only the first pair matches. Bytes can stand for characters, because the patterns are ASCII
// and "not a digit" holds for every byte of a longer character.
template <class Match>
std::string space_pairs(const std::string& in, Match match, bool before, bool between, bool after) {
  std::string out;
  out.reserve(in.size() * 2);
  size_t at = 0;
  while (at < in.size()) {
    if (at + 1 == in.size() || !match(in[at], in[at + 1])) {
      out += in[at++];
      continue;
    }
    if (before) out += ' ';
    out += in[at];
    if (between) out += ' ';
    out += in[at + 1];
    if (after) out += ' ';
    at += 2;
  }
  return out;
}

std::string space_symbols(const std::string& in) {
  std::string out;
  out.reserve(in.size() * 2 + 2);
  out += ' ';
  for (char c : in) {
    if (is_symbol(c)) {
      out += ' ';
      out += c;
      out += ' ';
    } else {
      out += c;
    }
  }
  return out += ' ';
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  std::string text = space_symbols(unescape(strip_right(line)));
  text = space_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); }, false, true, true);
  text = space_pairs(
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); }, true, true, false);
  text = space_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, false, true, true);
  std::string out;
  out.reserve(text.size());
  for (std::string_view word : split_words(text)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    Character c = character_at(text, at);
    if (is_space(c.code)) {
      if (at > begin) words.push_back(text.substr(begin, at - begin));
      begin = at + c.bytes;
    }
    at += c.bytes;
  }
  if (text.size() > begin) words.push_back(text.substr(begin));
  return words;
}

std::vector<std::string_view> chrf_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::string_view word : split_words(text)) {
    const bool single = character_at(word, 0).bytes == word.size();
    size_t cut = 0;
    if (!single && is_punctuation(word.back())) {
      cut = word.size() - 1;
    } else if (!single && is_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> codes;
  codes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Character c = character_at(text, at);
    if (!is_space(c.code)) codes.push_back(c.code);
    at += c.bytes;
  }
  return codes;
}

}  // namespace reigen
