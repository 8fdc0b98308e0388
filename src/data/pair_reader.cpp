#include "data/pair_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
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
        format("{} has {} lines but {} has {}; line n of one must translate line n of "
               "the other",
               source_.source().path(), with_commas(source_.lines()), target_.source().path(),
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
    pair.malformed = tab == std::string::npos;
    pair.source = line_.substr(0, tab);
    pair.target.clear();
    if (!pair.malformed) {
      size_t end = line_.find('\t', tab + 1);
      pair.target = line_.substr(tab + 1, end == std::string::npos ? end : end - tab - 1);
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

std::string format_by_name(const std::string& path) {
  std::string name = path;
  for (const char* packed : {".gz", ".zst", ".xz"}) {
    if (name.ends_with(packed)) name.resize(name.size() - std::string(packed).size());
  }
  for (const char* known : {"tsv", "tmx", "po", "mo"}) {
    if (name.ends_with(std::string(".") + known)) return known;
  }
  throw ConfigError(
      format("{}: cannot tell what a single file of this name holds; add format=tsv, "
             "tmx, po or mo, or name two text files",
             path));
}

std::unique_ptr<PairReader> open_by_format(const std::string& kind, const CorpusSpec& spec,
                                           const std::string& source, const std::string& target) {
  if ((kind == "text") != (spec.paths.size() == 2)) {
    throw ConfigError(format("corpus {}: format {} takes {}, not {}", spec.name, kind,
                             kind == "text" ? "two files" : "one file", spec.paths.size()));
  }
  if (kind == "text") return open_text_pairs(spec.paths[0], spec.paths[1]);
  if (kind == "tsv") return open_tsv(spec.paths[0]);
  // In TMX the languages say which side is which, so swapping is a matter of asking for them so.
  if (kind == "tmx") return open_tmx(spec.paths[0], source, target);
  return kind == "po" ? open_po(spec.paths[0]) : open_mo(spec.paths[0]);
}

}  // namespace

std::unique_ptr<PairReader> open_text_pairs(const std::string& source, const std::string& target) {
  return std::make_unique<TextPairReader>(source, target);
}

std::unique_ptr<PairReader> open_tsv(const std::string& path) {
  return std::make_unique<TsvReader>(path);
}

std::unique_ptr<PairReader> open_pairs(const CorpusSpec& spec, const std::string& source_language,
                                       const std::string& target_language) {
  std::string kind = spec.format;
  if (kind.empty()) kind = spec.paths.size() == 2 ? "text" : format_by_name(spec.paths[0]);
  auto reader = open_by_format(kind, spec, source_language, target_language);
  if (spec.swap) reader = std::make_unique<SwappedReader>(std::move(reader));
  return reader;
}

}  // namespace reigen
