#include "data/input/pair_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"

namespace reigen {
namespace {

class TextPairReader : public PairReader {
 public:
  TextPairReader(const std::string& source, const std::string& target)
      : source_(source), target_(target) {}

  bool next(RawPair& pair) override {
    bool left = source_.next(pair.source);
    bool right = target_.next(pair.target);
    if (left != right) throw_unequal(pair.source);
    return left;
  }

  uint64_t raw_bytes_read() const override {
    return source_.source().raw_bytes_read() + target_.source().raw_bytes_read();
  }

  std::vector<InputFile> inputs() override {
    return {source_.source().describe(), target_.source().describe()};
  }

 private:
  [[noreturn]] void throw_unequal(std::string& line) {
    while (source_.next(line)) {
    }
    while (target_.next(line)) {
    }
    throw DataError(
        format("{} has {} but {} has {}; line n of one must translate line n of the other",
               source_.source().path(), counted(source_.lines(), "line"), target_.source().path(),
               with_commas(target_.lines())));
  }

  LineReader source_;
  LineReader target_;
};

class TsvReader : public PairReader {
 public:
  explicit TsvReader(const std::string& path) : lines_(path) {}

  bool next(RawPair& pair) override {
    if (!lines_.next(line_)) return false;
    size_t tab = line_.find('\t');
    size_t end = tab == std::string::npos ? tab : line_.find('\t', tab + 1);
    pair.malformed = tab == std::string::npos;
    pair.source = line_.substr(0, tab);
    pair.target.clear();
    if (!pair.malformed) {
      pair.target = line_.substr(tab + 1, end == std::string::npos ? end : end - tab - 1);
    }
    // Cut inside a column: each column may be short enough, so the whole line marks the pair as too
    // long.
    if (line_.size() > kMaxLineBytes && end == std::string::npos) {
      pair = {.source = line_};
    }
    return true;
  }

  uint64_t raw_bytes_read() const override { return lines_.source().raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return {lines_.source().describe()}; }

 private:
  LineReader lines_;
  std::string line_;
};

class SwappedReader : public PairReader {
 public:
  explicit SwappedReader(std::unique_ptr<PairReader> inner) : inner_(std::move(inner)) {}

  bool next(RawPair& pair) override {
    bool more = inner_->next(pair);
    std::swap(pair.source, pair.target);
    return more;
  }
  uint64_t raw_bytes_read() const override { return inner_->raw_bytes_read(); }
  std::vector<InputFile> inputs() override { return inner_->inputs(); }

 private:
  std::unique_ptr<PairReader> inner_;
};

// Empty for other names. A .bz2 suffix is removed too, so that the error is about bzip2.
std::string format_by_name(const std::string& path) {
  std::string name = path;
  for (const char* packed : {".gz", ".zst", ".xz", ".bz2"}) {
    if (name.ends_with(packed)) name.resize(name.size() - std::string(packed).size());
  }
  for (const char* known : {"tsv", "tmx", "po", "mo"}) {
    if (name.ends_with(std::string(".") + known)) return known;
  }
  return "";
}

std::string format_of(const CorpusSpec& spec) {
  if (!spec.format.empty()) return spec.format;
  std::string first = format_by_name(spec.paths[0]);
  if (spec.paths.size() == 1) {
    if (!first.empty()) return first;
    throw ConfigError(
        format("{}: the format of a single file of this name is unknown; add format=tsv, "
               "tmx, po or mo, or name two text files",
               spec.paths[0]));
  }
  // One such suffix may be a language (news.ro and news.mo); two are two corpora.
  std::string second = format_by_name(spec.paths[1]);
  if (!first.empty() && !second.empty()) {
    throw ConfigError(format(
        "{} and {} each contain pairs (formats {} and {} by their names), so they are not two "
        "sides of one corpus; give --train twice, or add format=text",
        spec.paths[0], spec.paths[1], first, second));
  }
  return "text";
}

std::unique_ptr<PairReader> open_by_format(const std::string& kind, const CorpusSpec& spec,
                                           const std::string& source, const std::string& target) {
  if ((kind == "text") != (spec.paths.size() == 2)) {
    throw ConfigError(format("corpus {}: format {} takes {}, not {}", spec.name, kind,
                             kind == "text" ? "two files" : "one file", spec.paths.size()));
  }
  if (kind == "text") return open_text_pairs(spec.paths[0], spec.paths[1]);
  if (kind == "tsv") return open_tsv(spec.paths[0]);
  if (kind == "tmx") {
    if (spec.swap) {
      throw ConfigError(
          format("corpus {}: swap=true has no effect on TMX, whose segments name their language: "
                 "'{}' is read as source and '{}' as target; remove swap",
                 spec.name, source, target));
    }
    return open_tmx(spec.paths[0], source, target);
  }
  return kind == "po" ? open_po(spec.paths[0]) : open_mo(spec.paths[0]);
}

}  // namespace

bool QueuedReader::next(RawPair& pair) {
  while (ready_.empty() && !ended_) read_some();
  if (ready_.empty()) return false;
  pair = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

std::unique_ptr<PairReader> open_text_pairs(const std::string& source, const std::string& target) {
  return std::make_unique<TextPairReader>(source, target);
}

std::unique_ptr<PairReader> open_tsv(const std::string& path) {
  return std::make_unique<TsvReader>(path);
}

std::unique_ptr<PairReader> open_pairs(const CorpusSpec& spec, const std::string& source_language,
                                       const std::string& target_language) {
  auto reader = open_by_format(format_of(spec), spec, source_language, target_language);
  if (spec.swap) reader = std::make_unique<SwappedReader>(std::move(reader));
  return reader;
}

}  // namespace reigen
