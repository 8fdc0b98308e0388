#include "config/prepare_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/printable.h"
#include "config/common_options.h"

namespace reigen {
namespace {

constexpr int64_t kLeastWithBytes = 4000;  // pieces, from which on auto takes bytes
constexpr double kCoverageWithBytes = 0.9999;
constexpr double kLeastCoverage = 0.98;
constexpr size_t kMostSymbolBytes = 64;
constexpr size_t kMostLanguages = 1000;

// "<0x41>": SentencePiece refuses a vocabulary that has such a piece twice, without its name.
bool is_byte_piece(std::string_view symbol) {
  return symbol.size() == 6 && symbol.starts_with("<0x") && symbol.back() == '>' &&
         symbol.substr(3, 2).find_first_not_of("0123456789ABCDEF") == symbol.npos;
}

void check_user_symbols(const std::vector<std::string>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    const std::string& symbol = symbols[i];
    const bool bad = symbol.empty() || symbol.size() > kMostSymbolBytes ||
                     symbol.find_first_of(" \t\r\n,\"") != std::string::npos;
    const bool twice = std::count(symbols.begin(), symbols.end(), symbol) > 1;
    const bool special =
        symbol == "<pad>" || symbol == "<s>" || symbol == "</s>" || symbol == "<unk>";
    const bool byte = is_byte_piece(symbol);
    if (!bad && !twice && !special && !byte) continue;
    throw ConfigError(format(
        "vocab.user-symbols: \"{}\" {}", printable_line(symbol),
        twice     ? "is given twice"
        : special ? "is a piece of every vocabulary"
        : byte    ? "is a byte's piece of vocabularies with vocab.byte-fallback"
               : "cannot be a piece: a symbol has 1 to 64 bytes, no white space, comma or quote"));
  }
}

void describe_vocab(Schema& s, VocabOptions& o) {
  s.option("vocab.file", o.file, "FILE",
           "existing vocabulary to use instead of training one: a SentencePiece FILE.model, a "
           "FILE.vocab for text that is already split into its pieces, or the directory of a "
           "dataset, a run or a checkpoint")
      .flag("vocab");
  s.option("vocab.size", o.size,
           "number of pieces in the joint vocabulary, or in each of two vocabularies", 64,
           1'000'000)
      .flag("vocab-size");
  s.option("vocab.joint", o.joint,
           "train one vocabulary for both languages; when off, one for each, and the model has an "
           "embedding table for each");
  s.choice("vocab.type", o.type, "kind of SentencePiece model to train",
           {{"bpe", VocabType::kBpe}, {"unigram", VocabType::kUnigram}})
      .flag("vocab-type");
  s.option("vocab.sample-pairs", o.sample_pairs,
           "maximum number of pairs on which the vocabulary is trained", 1, 100'000'000);
  s.option("vocab.coverage", o.coverage,
           "share of character occurrences that the vocabulary covers, at least 0.98; other "
           "characters become bytes, or unknown without vocab.byte-fallback; 0 for 0.9999 with it "
           "and 1 without",
           0, 1.0);
  s.choice(
      "vocab.byte-fallback", o.byte_fallback,
      "split characters outside the vocabulary into pieces for their bytes, 256 of vocab.size, so "
      "that nothing is unknown; auto does so in vocabularies of 4,000 pieces and more",
      {{"auto", ByteFallback::kAuto}, {"true", ByteFallback::kOn}, {"false", ByteFallback::kOff}});
  s.option(
       "vocab.user-symbols", o.user_symbols, "TEXT...",
       "texts that are one piece each, wherever they occur, such as tags and placeholders; part "
       "of vocab.size")
      .flag("user-symbols");
}

void describe_clean(Schema& s, CleanOptions& o) {
  s.option("clean.utf8", o.utf8,
           "drop pairs that are not valid UTF-8; when off, bad bytes become U+FFFD");
  s.option("clean.control", o.control, "drop pairs with control characters");
  s.option("clean.nfkc", o.nfkc,
           "normalise text to Unicode NFKC (never applied to text that is split into pieces)");
  s.option("clean.whitespace", o.whitespace,
           "reduce white space to one space between words and none around the line");
  s.option("clean.empty", o.empty, "drop pairs with an empty side");
  s.option("clean.copy", o.copy, "drop pairs whose target is a copy of the source");
  s.option("clean.min-script", o.min_script,
           "minimum share of a side's letters in the script of its language, below which a pair "
           "is dropped; 0 for off",
           0, 1);
  s.option("clean.heldout", o.heldout, "drop training pairs that are also in valid or test");
  s.option("clean.duplicate", o.duplicate, "drop exact duplicates of an earlier pair");
  s.option("clean.score", o.score, "PATH",
           "run or checkpoint whose model scores the pairs that pass all rules on text, by the "
           "log-probability of the target per token; the worst share is dropped; the model runs on "
           "the CPU, and its rounding depends on the number of threads");
  s.option("clean.score-reverse", o.score_reverse, "PATH",
           "with clean.score: model of the opposite direction; pairs are then scored by the "
           "cross-entropies of both, which should be low and alike (dual cross-entropy)");
  s.option("clean.score-share", o.score_share,
           "with clean.score: share of the pairs that is dropped; a pair that is too long for a "
           "model is among the worst",
           0, 0.99);
  s.option("clean.max-ratio", o.max_ratio,
           "maximum ratio of the numbers of pieces of the two sides, above which a pair is "
           "dropped; 5 is added to both numbers, so that short lines may differ more; 0 for off",
           0, 1000);
  s.option("clean.min-pieces", o.min_pieces,
           "minimum number of pieces on each side, below which a pair is dropped", 0, 1'000'000);
  s.option("clean.max-pieces", o.max_pieces,
           "maximum number of pieces on each side, above which a pair is dropped; 0 for off", 0,
           1'000'000)
      .flag("max-pieces");
}

}  // namespace

void describe(Schema& s, PrepareOptions& o) {
  s.option("source", o.source, "LANG", "source language, such as en").required();
  s.option("target", o.target, "LANG", "target language, such as de").required();
  const std::string corpus_help =
      "training corpus: two line-aligned text files, or one .tsv, .tmx, .po or .mo (plain, gzip, "
      "zstd or xz), then optionally name=NAME weight=W format=F swap=true to=LANG; may be "
      "repeated; to=LANG names its target language, for a model with several target languages";
  s.custom(corpus_list_option("train", o.train, corpus_help, 10'000)).required();
  s.custom(corpus_list_option("valid", o.valid,
                              "validation corpus: held-out pairs that training scores; one for "
                              "each target language, with to=LANG",
                              kMostLanguages));
  s.custom(corpus_list_option("test", o.test,
                              "test corpus: held-out pairs for the final evaluation; one for "
                              "each target language, with to=LANG",
                              kMostLanguages));
  s.option("temperature", o.temperature,
           "temperature T of the mix: a target language (a corpus, where there is only one "
           "language) with n pairs is seen in proportion to n^(1/T), so that smaller ones gain "
           "weight; 1 for the weights as given",
           1, 1000);
  describe_output(s, o.output, o.overwrite, "dataset directory");
  describe_threads(s, o.threads, "; the dataset does not depend on it").unrecorded();
  s.option("seed", o.seed, "random seed for the sample on which the vocabulary is trained", 0,
           INT64_MAX);
  s.option("examples", o.examples, "number of dropped pairs to show for each cleaning rule", 0,
           1000)
      .unrecorded();
  s.option("shard-tokens", o.shard_tokens, "number of tokens after which a new shard file begins",
           1000, 1'000'000'000);
  describe_quiet(s, o.quiet).unrecorded();
  describe_vocab(s, o.vocab);
  describe_clean(s, o.clean);
  s.example(
      "reigen prepare --source en --target de --train news.en news.de weight=2 "
      "--train web.tsv.gz \\");
  s.example("    --valid dev.en dev.de --test test.en test.de --vocab-size 32000 --output data");
  s.example(
      "reigen prepare --source en --target de --train a.en a.de --train b.en b.fr to=fr "
      "--temperature 5 \\");
  s.example("    --valid v.en v.de --valid w.en w.fr to=fr --output data");
}

VocabOptions resolve(VocabOptions o) {
  if (o.byte_fallback == ByteFallback::kAuto) {
    o.byte_fallback = o.size >= kLeastWithBytes ? ByteFallback::kOn : ByteFallback::kOff;
  }
  const bool bytes = o.byte_fallback == ByteFallback::kOn;
  if (o.coverage == 0) o.coverage = bytes ? kCoverageWithBytes : 1;
  if (o.coverage < kLeastCoverage) {
    throw ConfigError(
        format("vocab.coverage is {} but must be at least {}", o.coverage, kLeastCoverage));
  }
  check_user_symbols(o.user_symbols);
  const auto fixed =
      static_cast<int64_t>(o.user_symbols.size() + o.tags.size()) + (bytes ? 256 : 0);
  if (fixed >= o.size) {
    throw ConfigError(
        format("--vocab-size {} is too small for {} pieces of vocab.byte-fallback, "
               "vocab.user-symbols and target languages; raise it",
               o.size, fixed));
  }
  return o;
}

namespace {

// One corpus for each language; its language, where `languages` has any, must be among them.
void check_heldout(const char* split, const std::vector<CorpusSpec>& specs,
                   const std::vector<std::string>& languages) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& to = specs[i].to;
    for (size_t j = 0; j < i; ++j) {
      if (specs[j].to != to) continue;
      throw ConfigError(
          to.empty() ? format("--{}: {} corpora given, at most 1 allowed; join their files, or "
                              "give each its target language with to=LANG",
                              split, specs.size())
                     : format("--{}: corpora {} and {} both translate to {}; join their files",
                              split, specs[j].name, specs[i].name, to));
    }
    if (languages.empty() || std::count(languages.begin(), languages.end(), to) > 0) continue;
    throw ConfigError(
        format("--{}: corpus {} translates to {}, but training corpora only to {}; add one, or "
               "correct its to=",
               split, specs[i].name, to, fmt::join(languages, ", ")));
  }
}

void complete_languages(PrepareOptions& options) {
  const auto splits = {&options.train, &options.valid, &options.test};
  auto named = [](const CorpusSpec& spec) { return !spec.to.empty(); };
  const bool any = std::any_of(splits.begin(), splits.end(), [&](const auto* specs) {
    return std::any_of(specs->begin(), specs->end(), named);
  });
  for (auto* specs : splits) {
    for (CorpusSpec& spec : *specs) {
      if (any && spec.to.empty()) spec.to = options.target;
      if (spec.to != options.source || spec.to.empty()) continue;
      throw ConfigError(format("corpus {}: to={} is the source language (--source {})", spec.name,
                               spec.to, options.source));
    }
  }
  const std::vector<std::string> languages = target_languages(options);
  check_heldout("valid", options.valid, languages);
  check_heldout("test", options.test, languages);
}

}  // namespace

std::vector<std::string> target_languages(const PrepareOptions& options) {
  std::vector<std::string> languages;
  for (const CorpusSpec& spec : options.train) {
    const bool known = std::count(languages.begin(), languages.end(), spec.to) > 0;
    if (!spec.to.empty() && !known) languages.push_back(spec.to);
  }
  return languages;
}

PrepareOptions resolve(PrepareOptions options) {
  complete_languages(options);
  if (options.clean.score.empty() && !options.clean.score_reverse.empty()) {
    throw ConfigError("clean.score-reverse needs the model of the forward direction: clean.score");
  }
  if (options.vocab.file.empty()) {
    options.vocab = resolve(options.vocab);
    return options;
  }
  if (!options.vocab.joint) {
    throw ConfigError(format(
        "--vocab.joint=false trains two vocabularies, but --vocab {} gives an existing one; leave "
        "one of them out",
        options.vocab.file));
  }
  if (!options.vocab.user_symbols.empty()) {
    throw ConfigError(format(
        "vocab.user-symbols are for a new vocabulary, but --vocab {} gives an existing one; leave "
        "one of them out",
        options.vocab.file));
  }
  return options;
}

Json recorded_options(const PrepareOptions& options) {
  PrepareOptions copy = options;
  Schema schema("prepare", "");
  describe(schema, copy);
  Json recorded = schema.recorded();
  if (!options.vocab.file.empty()) recorded["vocab"] = {{"file", options.vocab.file}};
  // Options of later versions are left out at their defaults, so that the same text and options
  // give the same bytes as in versions without them.
  if (options.clean.score.empty()) {
    for (const char* key : {"score", "score-reverse", "score-share"}) recorded["clean"].erase(key);
  }
  if (options.temperature == 1) recorded.erase("temperature");
  Json& vocab = recorded["vocab"];
  if (options.vocab.joint) vocab.erase("joint");
  if (options.vocab.byte_fallback != ByteFallback::kOn) vocab.erase("byte-fallback");
  if (options.vocab.user_symbols.empty()) vocab.erase("user-symbols");
  return recorded;
}

}  // namespace reigen
