// TMX 1.4: <tu> contains one <tuv xml:lang=".."> per language, each with a <seg>. A door to expat.
//
// Parsed as a stream, so that a file of any size takes constant memory. Inline markup inside <seg>
// (<bpt>, <ph>, ...) contains native codes, not text, and is removed with its content; <hi>
// contains text. A file in which no <tu> has both languages is an error, not an empty corpus.
#include <expat.h>

#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "data/input/line_reader.h"
#include "data/input/pair_reader.h"

namespace reigen {
namespace {

static_assert(XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 4,
              "expat limits how far entities expand (\"billion laughs\") only from 2.4 on");

constexpr int kChunkBytes = 1 << 16;
// Expat buffers a tag or comment until its end; it passes on text in blocks.
constexpr int64_t kMostTagBytes = 1 << 24;
// Expat remembers every open tag: 9 MB of them take 443 MB. TMX itself nests about ten.
constexpr int kMostOpenTags = 100;
constexpr size_t kMostLanguagesNamed = 20;  // in the error about a file without the wanted ones

std::string lowercase(std::string text) {
  for (char& c : text)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "en" matches "EN-us"; "pt-BR" matches only itself and its extensions.
bool language_matches(const std::string& wanted, const std::string& given) {
  return given == wanted || given.starts_with(wanted + "-");
}

// With a DOCTYPE, XML allows entities that only its DTD defines, and expat skips them. These few of
// HTML's are common in TMX; any other is an error.
const char* html_entity(std::string_view name) {
  if (name == "nbsp") return "\u00A0";
  if (name == "shy") return "\u00AD";
  if (name == "ndash") return "\u2013";
  if (name == "mdash") return "\u2014";
  if (name == "hellip") return "\u2026";
  return nullptr;
}

class TmxReader : public QueuedReader {
 public:
  TmxReader(const std::string& path, const std::string& source, const std::string& target)
      : bytes_(path),
        source_name_(source),
        target_name_(target),
        source_language_(lowercase(source)),
        target_language_(lowercase(target)),
        parser_(XML_ParserCreate(nullptr)) {
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(
        parser_,
        [](void* self, const XML_Char* name, const XML_Char** attributes) {
          static_cast<TmxReader*>(self)->open(name, attributes);
        },
        [](void* self, const XML_Char* name) { static_cast<TmxReader*>(self)->close(name); });
    XML_SetCharacterDataHandler(parser_, [](void* self, const XML_Char* text, int size) {
      static_cast<TmxReader*>(self)->add_text({text, static_cast<size_t>(size)});
    });
    XML_SetSkippedEntityHandler(parser_, [](void* self, const XML_Char* name, int parameter) {
      if (parameter == 0) static_cast<TmxReader*>(self)->add_entity(name);
    });
    // Without a handler, an entity that refers to a file would be skipped silently.
    XML_SetExternalEntityRefHandler(
        parser_,
        [](XML_Parser parser, const XML_Char*, const XML_Char*, const XML_Char* file,
           const XML_Char*) -> int {
          auto* reader = static_cast<TmxReader*>(XML_GetUserData(parser));
          reader->stop(
              format("an entity refers to the file '{}', which is not read; insert its text here",
                     file == nullptr ? "" : file));
          return XML_STATUS_OK;
        });
  }
  ~TmxReader() override { XML_ParserFree(parser_); }
  TmxReader(const TmxReader&) = delete;
  TmxReader& operator=(const TmxReader&) = delete;

  uint64_t raw_bytes_read() const override { return bytes_.raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {bytes_.describe()}; }

 private:
  void read_some() override {
    void* buffer = XML_GetBuffer(parser_, kChunkBytes);
    if (buffer == nullptr) throw DataError(format("{}: out of memory", bytes_.path()));
    size_t got = bytes_.read(static_cast<char*>(buffer), kChunkBytes);
    fed_ += static_cast<int64_t>(got);
    ended_ = got == 0;
    bool parsed = XML_ParseBuffer(parser_, static_cast<int>(got), ended_) == XML_STATUS_OK;
    if (!parsed && error_.empty()) {
      stop(format("not well-formed TMX ({})", XML_ErrorString(XML_GetErrorCode(parser_))));
    } else if (parsed && fed_ - XML_GetCurrentByteIndex(parser_) > kMostTagBytes) {
      stop(format("a tag or comment of more than {} bytes", with_commas(kMostTagBytes)));
    }
    if (!error_.empty()) throw DataError(error_);
    if (ended_) check_languages();
  }

  // An exception must not pass through expat, which is C: the parser is stopped and read_some
  // throws.
  void stop(const std::string& what) {
    if (!error_.empty()) return;
    error_ = format("{}:{}: {}", bytes_.path(), XML_GetCurrentLineNumber(parser_), what);
    XML_StopParser(parser_, XML_FALSE);
  }

  void check_languages() const {
    if (units_ == 0) throw DataError(format("{}: contains no <tu>; is it TMX?", bytes_.path()));
    if (whole_units_ > 0) return;
    throw DataError(format(
        "{}: none of its {} <tu> has both '{}' and '{}'; its languages are: {}. Name them as "
        "the file does: 'en' matches en and en-US, but 'en-US' does not match en",
        bytes_.path(), with_commas(units_), source_name_, target_name_,
        languages_.empty() ? "none" : format("{}", fmt::join(languages_, ", "))));
  }

  void add_text(std::string_view text) {
    if (!in_segment_ || code_depth_ > 0) return;
    segment_.append(text.substr(0, kMaxLineBytes + 1 - segment_.size()));
  }

  void add_entity(const char* name) {
    if (!in_segment_ || code_depth_ > 0) return;
    if (const char* text = html_entity(name)) return add_text(text);
    stop(format("'&{};' is not defined in the file; write the character itself", name));
  }

  static bool is_code(const char* name) {
    for (const char* code : {"bpt", "ept", "ph", "it", "ut"}) {
      if (std::strcmp(name, code) == 0) return true;
    }
    return false;
  }

  void open(const char* name, const char** attributes) {
    if (++open_tags_ > kMostOpenTags) {
      return stop(format("tags nested more than {} deep; it is not TMX", kMostOpenTags));
    }
    if (std::strcmp(name, "tu") == 0) {
      source_.reset();
      target_.reset();
    } else if (std::strcmp(name, "tuv") == 0) {
      language_.clear();
      for (; *attributes != nullptr; attributes += 2) {
        bool is_language =
            std::strcmp(attributes[0], "xml:lang") == 0 || std::strcmp(attributes[0], "lang") == 0;
        if (is_language) set_language(attributes[1]);
      }
    } else if (std::strcmp(name, "seg") == 0) {
      segment_.clear();
      in_segment_ = true;
      code_depth_ = 0;
    } else if (in_segment_ && is_code(name)) {
      ++code_depth_;
    }
  }

  void set_language(const std::string& given) {
    language_ = lowercase(given);
    if (languages_.size() < kMostLanguagesNamed) languages_.insert(given.substr(0, 40));
  }

  void close(const char* name) {
    --open_tags_;
    if (std::strcmp(name, "seg") == 0) {
      in_segment_ = false;
      if (!source_ && language_matches(source_language_, language_)) {
        source_ = segment_;
      } else if (!target_ && language_matches(target_language_, language_)) {
        target_ = segment_;
      }
    } else if (std::strcmp(name, "tu") == 0) {
      bool whole = source_ && target_;
      ready_.push_back({source_.value_or(""), target_.value_or(""), !whole});
      ++units_;
      if (whole) ++whole_units_;
    } else if (in_segment_ && is_code(name)) {
      --code_depth_;
    }
  }

  ByteSource bytes_;
  std::string source_name_;
  std::string target_name_;
  std::string source_language_;
  std::string target_language_;
  XML_Parser parser_;
  int64_t fed_ = 0;
  std::string error_;
  uint64_t units_ = 0;
  uint64_t whole_units_ = 0;
  std::set<std::string> languages_;
  std::optional<std::string> source_;
  std::optional<std::string> target_;
  std::string language_;
  std::string segment_;
  bool in_segment_ = false;
  int code_depth_ = 0;
  int open_tags_ = 0;
};

}  // namespace

std::unique_ptr<PairReader> open_tmx(const std::string& path, const std::string& source_language,
                                     const std::string& target_language) {
  return std::make_unique<TmxReader>(path, source_language, target_language);
}

}  // namespace reigen
