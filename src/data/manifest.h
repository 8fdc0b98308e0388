// manifest.json: the contents of a dataset, its inputs, and the number of dropped pairs by rule.
//
// It depends only on inputs and options: no dates, thread counts or host names. Two runs on the
// same input write the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "data/input/byte_source.h"
#include "data/shard.h"
#include "text/cleaner.h"

namespace reigen {

// Number of sentences by length in pieces, without end of sentence.
struct LengthHistogram {
  std::map<uint32_t, uint64_t> counts;

  void add(uint32_t pieces) { ++counts[pieces]; }
  void merge(const LengthHistogram& other);
  uint64_t sentences() const;
  uint64_t pieces() const;
  double mean() const;
  uint32_t longest() const;
  uint32_t percentile(double share) const;  // `share` of the sentences are not longer
};

// One side of the pairs that were not dropped: normalised text, pieces without end of sentence.
struct SideFacts {
  uint64_t bytes = 0;  // with a newline per line, as `wc -c` counts
  uint64_t pieces = 0;
  uint64_t unknown = 0;  // pieces that are <unk>
  LengthHistogram lengths;
};

struct CorpusFacts {
  std::string name;
  std::string to;  // target language, in a dataset with tags
  double weight = 1;
  std::vector<InputFile> inputs;
  uint64_t lines_read = 0;
  uint64_t lines_kept = 0;
  std::array<uint64_t, kRuleCount> dropped = {};
  uint64_t heldout_kept =
      0;  // training pairs that are also in valid or test, without clean.heldout
  SideFacts source;
  SideFacts target;
  std::vector<ShardInfo> shards;
};

struct OutputFile {
  std::string file;
  uint64_t bytes = 0;
  std::string sha256;
};

struct VocabFacts {
  OutputFile file;
  uint64_t size = 0;
  bool cuts_text = true;
};

struct Manifest {
  std::string source_language;
  std::string target_language;
  // Those of the vocabulary's tags (text/language_tag.h): each source begins with that of its
  // language. Empty for a dataset without tags.
  std::vector<std::string> target_languages;
  VocabFacts vocab;  // joint, or that of the target language
  std::optional<VocabFacts> source_vocab;
  std::vector<CorpusFacts> train;
  std::vector<CorpusFacts> valid;  // at most one for each target language
  std::vector<CorpusFacts> test;
  std::vector<OutputFile> texts;  // valid and test as text, for scoring
  Json options;

  uint64_t train_pairs() const;
  std::vector<OutputFile> files() const;  // every file but the manifest and SHA256SUMS
};

Json to_json(const Manifest& manifest);

// The files of a validation or test corpus: STEM.shard, and as text STEM.SOURCE and STEM.TARGET.
struct HeldoutFiles {
  HeldoutFiles(const Manifest& manifest, const std::string& split, const std::string& to);
  std::string shard;
  std::string source;
  std::string target;
};

// A file of its own directory: no slash, not "." or "..", no control character. Every file name
// and both languages of a manifest that was read are such names, so that a path made from one stays
// inside the dataset.
bool is_plain_file_name(std::string_view name);

// Throws DataError, which begins with `name`, if `text` is not a manifest or a field of it is
// wrong.
Manifest parse_manifest(std::string_view text, const std::string& name);

// Throws DataError naming the directory if it is not a complete dataset.
Manifest read_manifest(const std::string& directory);

}  // namespace reigen
