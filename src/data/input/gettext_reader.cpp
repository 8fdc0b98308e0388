// gettext catalogues: .po (text) and .mo (compiled). msgid is the source, msgstr the target.
//
// Every entry but the header (empty msgid) gives pairs; no entry is dropped without being counted.
// Plural forms give msgid with msgstr[0] and msgid_plural with msgstr[1]. A language with one form
// (Japanese) has no msgstr[1], which makes that pair malformed; a third form has no English side
// and is skipped. Fuzzy entries (unconfirmed guesses) and obsolete ones (#~: no longer used by the
// program) are malformed, too. Untranslated entries have an empty target.
#include <cctype>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "data/input/line_reader.h"
#include "data/input/pair_reader.h"

namespace reigen {
namespace {

// The largest catalogues have a few MB. A .mo file is read into memory, so its size is limited.
constexpr size_t kMostMoBytes = 256'000'000;

struct Entry {
  std::string id;
  std::string plural;
  std::string translations[2];
  bool has_id = false;
  bool has_plural = false;
  bool has_second = false;
  bool fuzzy = false;
  bool obsolete = false;

  bool is_header() const { return has_id && id.empty() && !has_plural; }
};

void add_pairs(const Entry& entry, std::deque<RawPair>& out) {
  if (!entry.has_id || entry.is_header()) return;
  bool unconfirmed = entry.fuzzy || entry.obsolete;
  out.push_back({entry.id, entry.translations[0], unconfirmed});
  if (entry.has_plural) {
    out.push_back({entry.plural, entry.translations[1], unconfirmed || !entry.has_second});
  }
}

// The header's charset if it needs conversion, else empty. A template has the word CHARSET.
std::string_view foreign_charset(std::string_view header) {
  constexpr std::string_view kKey = "charset=";
  size_t at = header.find(kKey);
  if (at == std::string_view::npos) return {};
  std::string_view name = header.substr(at + kKey.size(), 40);
  name = name.substr(0, name.find_first_of(" \t\r\n;"));
  std::string upper;
  for (char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const char* fine : {"", "UTF-8", "UTF8", "ASCII", "US-ASCII", "CHARSET"}) {
    if (upper == fine) return {};
  }
  return name;
}

class PoReader : public QueuedReader {
 public:
  explicit PoReader(const std::string& path) : lines_(path) {}

  uint64_t raw_bytes_read() const override { return lines_.source().raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {lines_.source().describe()}; }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw DataError(format("{}:{}: {}", lines_.source().path(), lines_.lines(), what));
  }

  void finish_entry() {
    if (entry_.is_header()) {
      std::string_view charset = foreign_charset(entry_.translations[0]);
      if (!charset.empty()) {
        fail(format("the header declares charset={}; convert it with msgconv --to-code=UTF-8",
                    charset));
      }
    }
    add_pairs(entry_, ready_);
    entry_ = {};
    field_ = nullptr;
  }

  void read_some() override {
    if (!lines_.next(line_)) {
      ended_ = true;
      finish_entry();
      return;
    }
    std::string_view text = line_;
    skip_blanks(text);
    bool obsolete = text.starts_with("#~") && !text.starts_with("#~|");
    // An entry ends where the next one begins: at a comment, msgctxt or msgid.
    bool comment = text.starts_with('#');
    if (comment && entry_.has_id && !(obsolete && entry_.obsolete)) finish_entry();
    if (obsolete) {
      text.remove_prefix(2);
      skip_blanks(text);
      comment = text.starts_with('#');
    }
    if (text.empty()) return;
    if (comment) {
      if (text.starts_with("#,") && text.find("fuzzy") != std::string_view::npos) {
        entry_.fuzzy = true;
      }
      return;
    }
    parse_statement(text);
    if (obsolete) entry_.obsolete = true;
  }

  static void skip_blanks(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  }

  void parse_statement(std::string_view text) {
    if (text.starts_with('"')) {
      if (field_ == nullptr) fail("text outside of any msgid or msgstr");
      append_strings(text);
      return;
    }
    std::string_view word = text.substr(0, text.find_first_of(" \t\""));
    text.remove_prefix(word.size());
    skip_blanks(text);
    bool starts = word == "msgctxt" || word == "msgid";
    if (starts && entry_.has_id) finish_entry();
    field_ = field_named(word);
    if (field_ == nullptr) fail(format("unexpected '{}'", word.substr(0, 40)));
    if (!starts && !entry_.has_id) fail(format("{} without a msgid before it", word.substr(0, 40)));
    field_->clear();
    if (!text.starts_with('"')) fail("expected a string in double quotes");
    append_strings(text);
  }

  std::string* field_named(std::string_view word) {
    if (word == "msgctxt") return &skipped_;
    if (word == "msgid") {
      entry_.has_id = true;
      return &entry_.id;
    }
    if (word == "msgid_plural") {
      entry_.has_plural = true;
      return &entry_.plural;
    }
    if (word == "msgstr" || word == "msgstr[0]") return &entry_.translations[0];
    if (word == "msgstr[1]") {
      entry_.has_second = true;
      return &entry_.translations[1];
    }
    return word.starts_with("msgstr[") ? &skipped_ : nullptr;
  }

  // One or more strings, then perhaps a comment.
  void append_strings(std::string_view text) {
    if (line_.size() > kMaxLineBytes) {  // its closing quote was cut off
      field_->resize(kMaxLineBytes + 1);
      return;
    }
    while (text.starts_with('"')) {
      append_string(text);
      skip_blanks(text);
    }
    if (!text.empty() && !text.starts_with('#')) {
      fail(format("unexpected '{}' after a string; is a quote inside it without a backslash?",
                  text.substr(0, 40)));
    }
  }

  // Removes the string from the front of `text`.
  void append_string(std::string_view& text) {
    text.remove_prefix(1);
    while (!text.starts_with('"')) {
      if (text.empty()) fail("a string without its closing double quote");
      char c = take(text);
      if (c == '\\') c = take_escaped(text);
      if (field_->size() <= kMaxLineBytes) *field_ += c;
    }
    text.remove_prefix(1);
  }

  static char take(std::string_view& text) {
    char c = text.front();
    text.remove_prefix(1);
    return c;
  }

  // The character after a backslash, by gettext's rules: C's escapes and no others.
  char take_escaped(std::string_view& text) {
    constexpr std::string_view kLetters = "abfnrtv\\\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\\"";
    if (text.empty()) fail("a string ends with a lone backslash");
    size_t letter = kLetters.find(text.front());
    if (letter != std::string_view::npos) {
      text.remove_prefix(1);
      return kMeanings[letter];
    }
    bool hex = text.front() == 'x';
    if (hex) text.remove_prefix(1);
    size_t most = hex ? text.size() : 3;
    size_t digits = text.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "01234567");
    digits = std::min({digits, most, text.size()});
    unsigned value = 0;  // only the last two hex digits count
    for (size_t i = 0; i < digits; ++i) value = value * (hex ? 16 : 8) + digit_value(take(text));
    char byte = static_cast<char>(value);
    if (digits == 0 || byte == 0)
      fail("an escape that gettext does not know; write a backslash as '\\\\'");
    return byte;
  }

  static unsigned digit_value(char c) {
    if (c <= '9') return static_cast<unsigned>(c - '0');
    return static_cast<unsigned>((c | 0x20) - 'a' + 10);
  }

  LineReader lines_;
  std::string line_;
  Entry entry_;
  std::string* field_ = nullptr;
  std::string skipped_;
};

class MoReader : public QueuedReader {
 public:
  explicit MoReader(const std::string& path) : source_(path) {
    char buffer[1 << 16];
    for (size_t got; (got = source_.read(buffer, sizeof buffer)) > 0;) {
      bytes_.append(buffer, got);
      if (bytes_.size() > kMostMoBytes) fail("larger than 256 MB, the limit for a .mo file");
    }
    constexpr uint32_t kMagic = 0x950412de;
    constexpr uint32_t kSwapped = 0xde120495;
    if (bytes_.size() < 20) fail("too short for a .mo file");
    uint32_t magic = word(0);
    if (magic != kMagic && magic != kSwapped) fail("not a .mo file (wrong magic number)");
    swap_ = magic == kSwapped;
    count_ = word(8);
    ids_ = word(12);
    strings_ = word(16);
    bool fits = uint64_t{ids_} + 8ull * count_ <= bytes_.size() &&
                uint64_t{strings_} + 8ull * count_ <= bytes_.size();
    if (!fits) fail("tables reach past the end of the file");
  }

  uint64_t raw_bytes_read() const override { return source_.raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {source_.describe()}; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(format("{}: {}", source_.path(), what));
  }

  uint32_t word(size_t at) const {
    uint32_t value;
    std::memcpy(&value, bytes_.data() + at, 4);
    return swap_ ? __builtin_bswap32(value) : value;
  }

  std::string_view string_at(uint32_t table, uint32_t index) const {
    uint64_t size = word(table + 8ull * index);
    uint64_t offset = word(table + 8ull * index + 4);
    if (offset + size > bytes_.size()) {
      fail(format("string {} reaches past the end of the file", index));
    }
    return std::string_view(bytes_).substr(offset, size);
  }

  static std::string_view take_form(std::string_view& text) {
    std::string_view form = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(text.size(), form.size() + 1));
    return form.substr(0, kMaxLineBytes + 1);
  }

  void read_some() override {
    ended_ = at_ == count_;
    if (!ended_) read_entry(at_++);
  }

  void read_entry(uint32_t index) {
    std::string_view id = string_at(ids_, index);
    std::string_view translation = string_at(strings_, index);
    size_t context = id.find('\x04');  // "context EOT msgid"
    if (context != std::string_view::npos) id.remove_prefix(context + 1);
    Entry entry;
    entry.has_id = true;
    entry.has_plural = id.find('\0') != std::string_view::npos;
    entry.has_second = translation.find('\0') != std::string_view::npos;
    entry.id = take_form(id);
    entry.plural = take_form(id);
    entry.translations[0] = take_form(translation);
    entry.translations[1] = take_form(translation);
    if (entry.is_header()) check_charset(entry.translations[0]);
    add_pairs(entry, ready_);
  }

  void check_charset(std::string_view header) const {
    std::string_view charset = foreign_charset(header);
    if (charset.empty()) return;
    fail(
        format("the header declares charset={}; make the file again from its .po: "
               "msgconv --to-code=UTF-8 FILE.po | msgfmt -o FILE.mo -",
               charset));
  }

  ByteSource source_;
  std::string bytes_;
  bool swap_ = false;
  uint32_t count_ = 0;
  uint32_t ids_ = 0;
  uint32_t strings_ = 0;
  uint32_t at_ = 0;
};

}  // namespace

std::unique_ptr<PairReader> open_po(const std::string& path) {
  return std::make_unique<PoReader>(path);
}

std::unique_ptr<PairReader> open_mo(const std::string& path) {
  return std::make_unique<MoReader>(path);
}

}  // namespace reigen
