#include "config/options.h"

namespace reigen {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxPairs = 1'000'000'000;
constexpr int64_t kMaxSeed = INT64_MAX;

void describe_run(Schema& s, int64_t& threads, std::string& output, bool& overwrite) {
  s.option("output", output, "DIR", "directory to write; complete or absent").required();
  s.option("overwrite", overwrite, "replace DIR once the new one is complete");
  s.option("threads", threads, "threads to use, 0 for all cores; never changes the result", 0,
           kMaxThreads);
}

void describe_vocab(Schema& s, VocabOptions& o) {
  s.option("vocab.file", o.file, "FILE",
           "use this vocabulary instead of training one: a SentencePiece FILE.model, or a "
           "FILE.vocab for text that is already cut into its pieces")
      .flag("vocab");
  s.option("vocab.size", o.size, "pieces in the joint vocabulary", 64, 1'000'000)
      .flag("vocab-size");
  s.choice("vocab.type", o.type, "kind of SentencePiece model to train",
           {{"bpe", VocabType::kBpe}, {"unigram", VocabType::kUnigram}})
      .flag("vocab-type");
  s.option("vocab.sample-pairs", o.sample_pairs, "train it on at most this many pairs", 1,
           100'000'000);
  s.option("vocab.coverage", o.coverage,
           "share of character occurrences to cover; the rest become unknown", 0.98, 1.0);
}

void describe_clean(Schema& s, CleanOptions& o) {
  s.option("clean.utf8", o.utf8,
           "drop pairs that are not valid UTF-8; when off, bad bytes become U+FFFD");
  s.option("clean.control", o.control, "drop pairs with control characters");
  s.option("clean.nfkc", o.nfkc, "normalise text to NFKC (not for text cut into pieces)");
  s.option("clean.whitespace", o.whitespace, "one space between words, none around the line");
  s.option("clean.empty", o.empty, "drop pairs with an empty side");
  s.option("clean.copy", o.copy, "drop pairs whose target is a copy of the source");
  s.option("clean.min-script", o.min_script,
           "drop pairs where fewer than this share of a side's letters are in the script of its "
           "language; 0 for off",
           0, 1);
  s.option("clean.heldout", o.heldout, "drop training pairs that are also in valid or test");
  s.option("clean.duplicate", o.duplicate, "drop exact duplicates, keeping the first");
  s.option("clean.max-ratio", o.max_ratio,
           "drop pairs where one side has more than this many times the pieces of the other, after "
           "adding 5 to both so that short lines may differ; 0 for off",
           0, 1000);
  s.option("clean.min-pieces", o.min_pieces, "drop pairs with fewer pieces on a side", 0,
           1'000'000);
  s.option("clean.max-pieces", o.max_pieces, "drop pairs with more pieces on a side; 0 for off", 0,
           1'000'000)
      .flag("max-pieces");
}

}  // namespace

void describe(Schema& s, CorpusOptions& o) {
  describe_run(s, o.threads, o.output, o.overwrite);
  s.option("pairs", o.pairs, "training pairs to write", 1, kMaxPairs);
  s.option("valid-pairs", o.valid_pairs, "validation pairs to write", 1, 1'000'000);
  s.option("test-pairs", o.test_pairs, "test pairs to write", 1, 1'000'000);
  s.option("seed", o.seed, "another seed, another corpus", 0, kMaxSeed);
  s.option("quiet", o.quiet, "no progress, only warnings and errors");
  s.example("reigen corpus --pairs 100000 --seed 1 --output demo/text");
}

void describe(Schema& s, PrepareOptions& o) {
  s.option("source", o.source, "LANG", "language to translate from, such as en").required();
  s.option("target", o.target, "LANG", "language to translate into, such as de").required();
  const std::string corpus_help =
      "two line-aligned text files, or one .tsv, .tmx, .po or .mo; plain, gzip, zstd or xz; then "
      "name=NAME weight=W format=F swap=true as wanted; may be given again";
  s.custom(corpus_list_option("train", o.train, corpus_help, 10'000)).required();
  s.custom(corpus_list_option("valid", o.valid, "held-out pairs to watch training with", 1));
  s.custom(corpus_list_option("test", o.test, "held-out pairs to score at the end", 1));
  describe_run(s, o.threads, o.output, o.overwrite);
  s.option("seed", o.seed, "chooses the vocabulary's sample", 0, kMaxSeed);
  s.option("examples", o.examples, "show this many dropped pairs for each rule", 0, 1000);
  s.option("shard-tokens", o.shard_tokens, "start another shard file after this many tokens", 1000,
           1'000'000'000);
  s.option("quiet", o.quiet, "no progress, only warnings and errors");
  describe_vocab(s, o.vocab);
  describe_clean(s, o.clean);
  s.example(
      "reigen prepare --source en --target de --train news.en news.de weight=2 "
      "--train web.tsv.gz \\");
  s.example("    --valid dev.en dev.de --test test.en test.de --vocab-size 32000 --output data");
}

void describe(Schema& s, InspectOptions& o) {
  s.option("path", o.path, "PATH", "a directory written by reigen prepare, a run or a checkpoint")
      .required()
      .positional();
  s.option("json", o.json, "print JSON instead of text");
  s.option("verify", o.verify, "check every checksum");
  s.example("reigen inspect data --verify");
  s.example("reigen inspect runs/first/best-bleu");
}

void describe(Schema& s, AttachOptions& o) {
  s.option("run", o.run, "RUN", "a run that `reigen train --detach` started")
      .required()
      .positional();
  s.example("reigen attach runs/first");
}

void describe(Schema& s, DemoOptions& o) {
  s.option("output", o.output, "DIR", "directory to write text, data and a run into").required();
  s.option("overwrite", o.overwrite,
           "replace what an earlier demo wrote there; without it, what is there is used and "
           "training goes on");
  s.option("threads", o.threads, "threads to use, 0 for all cores", 0, kMaxThreads);
  s.option("pairs", o.pairs, "training pairs to make", 1000, kMaxPairs);
  s.option("vocab-size", o.vocab_size, "pieces in the vocabulary", 64, 1'000'000);
  s.option("steps", o.steps, "optimizer steps to train for", 1, 1'000'000);
  s.example("reigen demo --output demo");
}

Json recorded_options(const PrepareOptions& options) {
  PrepareOptions copy = options;
  Schema schema("prepare", "");
  describe(schema, copy);
  Json recorded = schema.current();
  if (!options.vocab.file.empty()) recorded["vocab"] = {{"file", options.vocab.file}};
  for (const char* key : {"output", "overwrite", "threads", "examples", "quiet"}) {
    recorded.erase(key);
  }
  return recorded;
}

}  // namespace reigen
