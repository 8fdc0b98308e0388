// Cleaned pairs that wait in a temporary file for the vocabulary, and the passes over them: scoring
// by a model, counting words, encoding.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/pair_item.h"
#include "data/prepare/prepare.h"
#include "data/prepare/spool.h"
#include "text/vocab_trainer.h"

namespace reigen {

class Progress;

class SpooledPairs {
 public:
  explicit SpooledPairs(std::string path);

  void add(const PairItem& pair);
  void close();  // before the first pass
  uint64_t pairs() const { return pairs_; }

  // Marks the share with the lowest scores: they are not counted, and come with the rule kScore.
  // `languages`: the target language of each corpus.
  void mark_worst(const PairScoring& scoring, double share,
                  const std::vector<std::string>& languages);

  // Words over at most `most` pairs, the first of a random order of all: an even sample that does
  // not depend on the number of threads.
  struct Sample {
    bool of_source = true;
    bool of_target = true;
    uint64_t most = 0;
    uint64_t seed = 0;
  };
  struct CountedWords {
    WordCounts words;
    uint64_t pairs = 0;
  };
  CountedWords count_words(const Sample& sample, unsigned threads) const;

  // All pairs through `work`, in parallel, and `write`, in order. Then the file is removed.
  void take_all(const char* name, unsigned threads,
                const std::function<void(PairItem&, unsigned thread)>& work,
                const std::function<void(PairItem&)>& write);

 private:
  using Read = std::function<std::unique_ptr<PipelineItem>()>;
  Read reader_of(SpoolReader& spool, uint64_t& number, Progress& progress,
                 std::function<bool(uint64_t)> wanted) const;
  bool is_worst(uint64_t number) const { return !worst_.empty() && worst_[number]; }

  std::string path_;
  std::optional<SpoolWriter> writer_;
  uint64_t pairs_ = 0;
  std::vector<bool> worst_;  // empty: none
};

}  // namespace reigen
