// The options of `reigen prepare`: corpora, vocabulary and cleaning rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/corpus_spec.h"
#include "config/schema.h"

namespace reigen {

enum class VocabType { kBpe, kUnigram };
enum class ByteFallback { kAuto, kOn, kOff };

struct VocabOptions {
  int64_t size = 32'000;
  VocabType type = VocabType::kBpe;
  std::string file;
  int64_t sample_pairs = 1'000'000;
  double coverage = 0;  // 0: chosen
  bool joint = true;    // one for both languages
  ByteFallback byte_fallback = ByteFallback::kAuto;
  std::vector<std::string> user_symbols;
  std::vector<std::string> tags;  // of target languages, by the corpora; not an option
};

// A rule is off when its flag is false or its limit is 0.
struct CleanOptions {
  bool utf8 = true;
  bool control = true;
  bool nfkc = true;
  bool whitespace = true;
  bool empty = true;
  bool copy = true;
  double min_script = 0.5;
  bool heldout = true;
  bool duplicate = true;
  std::string score;          // run or checkpoint; empty: off
  std::string score_reverse;  // of the opposite direction; empty: one model scores
  double score_share = 0.1;   // of the pairs that are left, dropped
  double max_ratio = 3;
  int64_t min_pieces = 1;
  int64_t max_pieces = 256;
};

struct PrepareOptions {
  std::string source;
  std::string target;
  std::vector<CorpusSpec> train;
  std::vector<CorpusSpec> valid;
  std::vector<CorpusSpec> test;
  VocabOptions vocab;
  CleanOptions clean;
  double temperature = 1;
  int64_t examples = 0;
  int64_t shard_tokens = 16'000'000;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
};

void describe(Schema& schema, PrepareOptions& options);

// Completes the options; throws ConfigError when they contradict each other.
PrepareOptions resolve(PrepareOptions options);
VocabOptions resolve(VocabOptions options);

// The target languages of completed options, in the order of the training corpora, where corpora
// name theirs (`to`); else none.
std::vector<std::string> target_languages(const PrepareOptions& options);

// The options in a dataset's manifest: all that can change the result, nothing else.
Json recorded_options(const PrepareOptions& options);

}  // namespace reigen
