// TMX 1.4: <tu> holds one <tuv xml:lang=".."> per language, each with a <seg>. A door to expat.
//
// Parsed as a stream, so a file of any size takes constant memory. Inline markup inside <seg>
// (<bpt>, <ph>, ...) holds native codes, not text, and is left out with all inside it; <hi> holds
// text.
#include <expat.h>

#include <cctype>
#include <cstring>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "data/byte_source.h"
#include "data/pair_reader.h"

namespace reigen {
namespace {

constexpr int kChunkBytes = 1 << 16;

std::string lowercase(std::string text) {
  for (char& c : text)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "en" takes "EN-us"; "pt-BR" takes only itself and what is more exact.
bool language_matches(const std::string& wanted, const std::string& given) {
  return given == wanted || given.starts_with(wanted + "-");
}

class TmxReader : public PairReader {
 public:
  TmxReader(const std::string& path, const std::string& source, const std::string& target)
      : bytes_(path),
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
      auto* reader = static_cast<TmxReader*>(self);
      if (reader->in_segment_ && reader->code_depth_ == 0) {
        reader->segment_.append(text, static_cast<size_t>(size));
      }
    });
  }
  ~TmxReader() override { XML_ParserFree(parser_); }
  TmxReader(const TmxReader&) = delete;
  TmxReader& operator=(const TmxReader&) = delete;

  bool next(RawPair& pair) override {
    while (ready_.empty() && !ended_) parse_some();
    if (ready_.empty()) return false;
    pair = std::move(ready_.front());
    ready_.pop_front();
    return true;
  }

  uint64_t raw_bytes_read() const override { return bytes_.raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {bytes_.describe()}; }

 private:
  void parse_some() {
    void* buffer = XML_GetBuffer(parser_, kChunkBytes);
    if (buffer == nullptr) throw DataError(format("{}: out of memory", bytes_.path()));
    size_t got = bytes_.read(static_cast<char*>(buffer), kChunkBytes);
    ended_ = got == 0;
    if (XML_ParseBuffer(parser_, static_cast<int>(got), ended_) != XML_STATUS_OK) {
      throw DataError(format("{}:{}: not well-formed TMX ({})", bytes_.path(),
                             XML_GetCurrentLineNumber(parser_),
                             XML_ErrorString(XML_GetErrorCode(parser_))));
    }
  }

  static bool holds_codes(const char* name) {
    for (const char* code : {"bpt", "ept", "ph", "it", "ut"}) {
      if (std::strcmp(name, code) == 0) return true;
    }
    return false;
  }

  void open(const char* name, const char** attributes) {
    if (std::strcmp(name, "tu") == 0) {
      source_.reset();
      target_.reset();
    } else if (std::strcmp(name, "tuv") == 0) {
      language_.clear();
      for (; *attributes != nullptr; attributes += 2) {
        bool is_language =
            std::strcmp(attributes[0], "xml:lang") == 0 || std::strcmp(attributes[0], "lang") == 0;
        if (is_language) language_ = lowercase(attributes[1]);
      }
    } else if (std::strcmp(name, "seg") == 0) {
      segment_.clear();
      in_segment_ = true;
      code_depth_ = 0;
    } else if (in_segment_ && holds_codes(name)) {
      ++code_depth_;
    }
  }

  void close(const char* name) {
    if (std::strcmp(name, "seg") == 0) {
      in_segment_ = false;
      if (!source_ && language_matches(source_language_, language_)) {
        source_ = segment_;
      } else if (!target_ && language_matches(target_language_, language_)) {
        target_ = segment_;
      }
    } else if (std::strcmp(name, "tu") == 0) {
      ready_.push_back({source_.value_or(""), target_.value_or(""), !source_ || !target_});
    } else if (in_segment_ && holds_codes(name)) {
      --code_depth_;
    }
  }

  ByteSource bytes_;
  std::string source_language_;
  std::string target_language_;
  XML_Parser parser_;
  std::deque<RawPair> ready_;
  std::optional<std::string> source_;
  std::optional<std::string> target_;
  std::string language_;
  std::string segment_;
  bool in_segment_ = false;
  int code_depth_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<PairReader> open_tmx(const std::string& path, const std::string& source_language,
                                     const std::string& target_language) {
  return std::make_unique<TmxReader>(path, source_language, target_language);
}

}  // namespace reigen
