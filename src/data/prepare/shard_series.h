// The training pairs of all corpora, in order, as numbered shards of one directory.
#pragma once

#include <cstdint>
#include <string>

#include "data/manifest.h"
#include "data/prepare/pair_item.h"
#include "data/shard.h"
#include "text/vocabulary.h"

namespace reigen {

class ShardSeries {
 public:
  ShardSeries(std::string directory, const Vocabulary& vocabulary, uint64_t shard_tokens);

  // A shard has pairs of one corpus, whose record lists it.
  void add(CorpusFacts& corpus, const PairItem& pair);
  void flush();

 private:
  std::string directory_;
  const Vocabulary& vocabulary_;
  ShardBuilder builder_;
  uint64_t shard_tokens_;
  CorpusFacts* corpus_ = nullptr;
  int number_ = 0;
};

}  // namespace reigen
