#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstring>

namespace reigen {
namespace {

// Calls `visit` with every code point until it returns false.
template <class F>
void for_each_character(std::string_view text, F visit) {
  const char* s = text.data();
  const auto size = static_cast<int32_t>(text.size());
  for (int32_t at = 0; at < size;) {
    int32_t begin = at;
    UChar32 c;
    U8_NEXT(s, at, size, c);
    if (!visit(c, text.substr(static_cast<size_t>(begin), static_cast<size_t>(at - begin)))) return;
  }
}

bool is_space(UChar32 c) { return u_isUWhiteSpace(c) != 0; }

bool is_control(UChar32 c) { return u_charType(c) == U_CONTROL_CHAR && !is_space(c); }

// en_US, as POSIX writes it, is en-US.
std::string as_tag(std::string language) {
  std::replace(language.begin(), language.end(), '_', '-');
  return language;
}

bool is_ascii_letter(unsigned char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

}  // namespace

bool is_ascii(std::string_view text) {
  const char* p = text.data();
  size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    if (word & 0x8080808080808080ull) return false;
  }
  return std::all_of(p, p + left, [](char c) { return (c & 0x80) == 0; });
}

bool is_valid_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  bool valid = true;
  for_each_character(text, [&](UChar32 c, std::string_view) { return valid = c >= 0; });
  return valid;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  for_each_character(text, [&](UChar32 c, std::string_view bytes) {
    out += c >= 0 ? bytes : std::string_view("\xEF\xBF\xBD");
    return true;
  });
  return out;
}

bool has_control(std::string_view text) {
  // C0 and DEL are single bytes; C1 is U+0080 to U+009F, all of which start with 0xC2.
  bool suspicious = std::any_of(text.begin(), text.end(),
                                [](unsigned char c) { return c < 0x20 || c == 0x7F || c == 0xC2; });
  if (!suspicious) return false;
  bool found = false;
  for_each_character(text, [&](UChar32 c, std::string_view) { return !(found = is_control(c)); });
  return found;
}

std::string to_nfkc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  static const icu::Normalizer2* normalizer = icu::Normalizer2::getNFKCInstance(status);
  icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (normalizer->isNormalizedUTF8(piece, status)) return std::string(text);
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
  normalizer->normalizeUTF8(0, piece, sink, nullptr, status);
  return out;
}

std::string squeeze_whitespace(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool pending = false;
  auto add = [&](bool space, std::string_view bytes) {
    if (space) {
      pending = !out.empty();
      return;
    }
    if (pending) out += ' ';
    pending = false;
    out += bytes;
  };
  if (is_ascii(text)) {
    for (size_t i = 0; i < text.size(); ++i) {
      auto c = static_cast<unsigned char>(text[i]);
      add(c == ' ' || (c >= '\t' && c <= '\r'), text.substr(i, 1));
    }
    return out;
  }
  for_each_character(text, [&](UChar32 c, std::string_view bytes) {
    add(is_space(c), bytes);
    return true;
  });
  return out;
}

std::string without_line_breaks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](UChar32 c, std::string_view bytes) {
    const bool breaks = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    out += breaks ? std::string_view(" ") : bytes;
    return true;
  });
  return out;
}

bool starts_with_mark(std::string_view text) {
  if (text.empty() || (text[0] & 0x80) == 0) return false;
  bool mark = false;
  for_each_character(text, [&](UChar32 c, std::string_view) {
    mark = c >= 0 && (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0;
    return false;
  });
  return mark;
}

ScriptTest::ScriptTest(const std::string& language) {
  UErrorCode status = U_ZERO_ERROR;
  UScriptCode codes[kMaxScripts];
  icu::Locale locale = icu::Locale::forLanguageTag(as_tag(language), status);
  locale.addLikelySubtags(status);
  count_ = uscript_getCode(locale.getName(), codes, kMaxScripts, &status);
  if (U_FAILURE(status)) count_ = 0;
  for (int i = 0; i < count_; ++i) {
    scripts_[i] = codes[i];
    latin_ = latin_ || codes[i] == USCRIPT_LATIN;
  }
}

double ScriptTest::share(std::string_view text) const {
  if (count_ == 0) return 1;
  size_t letters = 0;
  size_t ours = 0;
  for_each_character(text, [&](UChar32 c, std::string_view) {
    if (c >= 0 && c < 0x80) {
      bool letter = is_ascii_letter(static_cast<unsigned char>(c));
      letters += letter;
      ours += letter && latin_;
      return true;
    }
    if (c < 0 || !u_isalpha(c)) return true;
    ++letters;
    for (int i = 0; i < count_; ++i) {
      if (uscript_hasScript(c, static_cast<UScriptCode>(scripts_[i]))) {
        ++ours;
        break;
      }
    }
    return true;
  });
  return letters == 0 ? 1 : static_cast<double>(ours) / static_cast<double>(letters);
}

bool is_known_language(const std::string& language) {
  UErrorCode status = U_ZERO_ERROR;
  icu::Locale locale = icu::Locale::forLanguageTag(as_tag(language), status);
  if (U_FAILURE(status) || locale.getLanguage()[0] == '\0') return false;
  icu::UnicodeString name;
  locale.getDisplayLanguage(icu::Locale::getEnglish(), name);
  std::string shown;
  name.toUTF8String(shown);
  return shown != locale.getLanguage();
}

}  // namespace reigen
