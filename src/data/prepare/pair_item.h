// One pair in the stages of `reigen prepare`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "data/input/pair_reader.h"
#include "data/manifest.h"
#include "data/prepare/ordered_pipeline.h"
#include "text/cleaner.h"
#include "text/vocabulary.h"

namespace reigen {

struct PairItem {
  std::string source;  // normalised
  std::string target;
  RawPair original;  // set only if it is shown as an example or stored
  uint32_t corpus = 0;
  uint64_t line = 0;  // in its corpus, from 1
  Rule rule = Rule::kKept;
  Hash128 hash;
  std::vector<uint32_t> source_ids;  // without end of sentence
  std::vector<uint32_t> target_ids;
};

// Pairs that go through a pipeline together.
struct PairBatch : PipelineItem {
  std::vector<PairItem> pairs;
};
inline constexpr size_t kBatchPairs = 512;
inline PairBatch& as_batch(PipelineItem& item) { return static_cast<PairBatch&>(item); }

// The identity of a pair when duplicates are searched; `to`: its target language, if it has a tag.
Hash128 hash_of(const PairItem& pair, std::string_view to);

// The target language of a corpus.
const std::string& target_of(const CorpusSpec& spec, const PrepareOptions& options);

// The tag of that language; none for none. Throws DataError where the vocabulary lacks it.
std::optional<uint32_t> tag_of(const Vocabulary& vocabulary, const std::string& to);

// Encodes pairs with the vocabularies of both sides. Not thread-safe: one per thread.
class PairEncoder {
 public:
  PairEncoder(const Vocabulary& vocabulary, LineTags tags)
      : source_(vocabulary.source(), tags),
        target_(vocabulary.has_source() ? std::optional<Encoder>(vocabulary) : std::nullopt) {}
  // The source begins with the tag, if there is one.
  void encode(PairItem& pair, std::optional<uint32_t> tag);

 private:
  Encoder source_;
  std::optional<Encoder> target_;  // none where the vocabulary is joint, to share its cache
};

// Adds an encoded pair to the figures of its corpus.
void count_pair(CorpusFacts& corpus, const PairItem& pair, const Vocabulary& vocabulary);

}  // namespace reigen
