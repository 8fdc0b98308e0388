// gettext catalogues: .po (text) and .mo (compiled). msgid is the source, msgstr the target.
//
// The header entry (empty msgid) is not a pair. Plural forms give msgid with msgstr[0] and
// msgid_plural with msgstr[1]; a third form has no English of its own. Fuzzy entries are guesses
// nobody confirmed: they count as malformed. Untranslated ones have an empty target.
#include <cstring>
#include <deque>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "data/byte_source.h"
#include "data/pair_reader.h"

namespace reigen {
namespace {

struct Entry {
  std::string id;
  std::string plural;
  std::string translations[2];
  bool has_id = false;
  bool has_plural = false;
  bool fuzzy = false;
};

void add_pairs(const Entry& entry, std::deque<RawPair>& out) {
  if (!entry.has_id || (entry.id.empty() && !entry.has_plural)) return;
  out.push_back({entry.id, entry.translations[0], entry.fuzzy});
  // A language with one form (Japanese) translates both numbers by it; the second stays out.
  if (entry.has_plural && !entry.translations[1].empty()) {
    out.push_back({entry.plural, entry.translations[1], entry.fuzzy});
  }
}

class PoReader : public PairReader {
 public:
  explicit PoReader(const std::string& path) : lines_(path) {}

  bool next(RawPair& pair) override {
    while (ready_.empty() && !ended_) parse_line();
    if (ready_.empty()) return false;
    pair = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }

  uint64_t raw_bytes_read() const override { return lines_.source().raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {lines_.source().describe()}; }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw DataError(format("{}:{}: {}", lines_.source().path(), lines_.lines(), what));
  }

  void finish_entry() {
    add_pairs(entry_, ready_);
    entry_ = {};
    field_ = nullptr;
  }

  void parse_line() {
    if (!lines_.next(line_)) {
      ended_ = true;
      finish_entry();
      return;
    }
    std::string_view text = line_;
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    // An entry ends where the next begins: at its first comment, or its msgctxt or msgid.
    bool comment = text.starts_with('#');
    if (comment && entry_.has_id) finish_entry();
    if (text.empty()) return;
    if (comment) {
      if (text.starts_with("#,") && text.find("fuzzy") != std::string_view::npos) {
        entry_.fuzzy = true;
      }
      return;
    }
    parse_statement(text);
  }

  void parse_statement(std::string_view text) {
    if (text.starts_with('"')) {
      if (field_ == nullptr) fail("text outside of any msgid or msgstr");
      append_quoted(text);
      return;
    }
    std::string_view word = text.substr(0, text.find_first_of(" \t\""));
    text.remove_prefix(word.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    bool starts = word == "msgctxt" || word == "msgid";
    if (starts && entry_.has_id) finish_entry();
    field_ = field_named(word);
    if (field_ == nullptr) fail(format("unexpected '{}'", word.substr(0, 40)));
    field_->clear();
    append_quoted(text);
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
    if (word == "msgstr[1]") return &entry_.translations[1];
    return word.starts_with("msgstr[") ? &skipped_ : nullptr;
  }

  void append_quoted(std::string_view text) {
    size_t last = text.rfind('"');
    if (!text.starts_with('"') || last == 0) fail("expected a string in double quotes");
    for (size_t i = 1; i < last; ++i) {
      if (text[i] != '\\') {
        *field_ += text[i];
        continue;
      }
      if (++i >= last) fail("a string ends with a lone backslash");
      switch (text[i]) {
        case 'n':
          *field_ += '\n';
          break;
        case 't':
          *field_ += '\t';
          break;
        case 'r':
          *field_ += '\r';
          break;
        default:
          *field_ += text[i];
          break;
      }
    }
  }

  LineReader lines_;
  std::string line_;
  std::deque<RawPair> ready_;
  Entry entry_;
  std::string* field_ = nullptr;
  std::string skipped_;
  bool ended_ = false;
};

class MoReader : public PairReader {
 public:
  explicit MoReader(const std::string& path) : source_(path) {
    char buffer[1 << 16];
    for (size_t got; (got = source_.read(buffer, sizeof buffer)) > 0;) bytes_.append(buffer, got);
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

  bool next(RawPair& pair) override {
    while (ready_.empty() && at_ < count_) read_entry(at_++);
    if (ready_.empty()) return false;
    pair = std::move(ready_.front());
    ready_.pop_front();
    return true;
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
    return form;
  }

  void read_entry(uint32_t index) {
    std::string_view id = string_at(ids_, index);
    std::string_view translation = string_at(strings_, index);
    size_t context = id.find('\x04');  // "context EOT msgid"
    if (context != std::string_view::npos) id.remove_prefix(context + 1);
    Entry entry;
    entry.has_id = true;
    entry.has_plural = id.find('\0') != std::string_view::npos;
    entry.id = take_form(id);
    entry.plural = take_form(id);
    entry.translations[0] = take_form(translation);
    entry.translations[1] = take_form(translation);
    add_pairs(entry, ready_);
  }

  ByteSource source_;
  std::string bytes_;
  bool swap_ = false;
  uint32_t count_ = 0;
  uint32_t ids_ = 0;
  uint32_t strings_ = 0;
  uint32_t at_ = 0;
  std::deque<RawPair> ready_;
};

}  // namespace

std::unique_ptr<PairReader> open_po(const std::string& path) {
  return std::make_unique<PoReader>(path);
}

std::unique_ptr<PairReader> open_mo(const std::string& path) {
  return std::make_unique<MoReader>(path);
}

}  // namespace reigen
