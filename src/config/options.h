// The typed options of every command. `describe` declares each of them once; see schema.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/corpus_spec.h"
#include "config/schema.h"

namespace reigen {

struct CorpusOptions {
  int64_t pairs = 100'000;
  int64_t valid_pairs = 1'000;
  int64_t test_pairs = 1'000;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
};

enum class VocabType { kBpe, kUnigram };

struct VocabOptions {
  int64_t size = 32'000;
  VocabType type = VocabType::kBpe;
  std::string file;
  int64_t sample_pairs = 1'000'000;
  double coverage = 1.0;
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
  int64_t examples = 0;
  int64_t shard_tokens = 16'000'000;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
};

struct InspectOptions {
  std::string path;
  bool json = false;
  bool verify = false;
};

struct AttachOptions {
  std::string run;
};

struct DemoOptions {
  std::string output;
  int64_t pairs = 100'000;
  int64_t vocab_size = 2'000;
  int64_t steps = 1'800;
  int64_t threads = 0;
  bool overwrite = false;
};

void describe(Schema& schema, CorpusOptions& options);
void describe(Schema& schema, PrepareOptions& options);
void describe(Schema& schema, InspectOptions& options);
void describe(Schema& schema, AttachOptions& options);
void describe(Schema& schema, DemoOptions& options);

// What a manifest records of the options: all that can change the result, nothing else.
Json recorded_options(const PrepareOptions& options);

}  // namespace reigen
