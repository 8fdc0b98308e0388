#include "data/prepare/shard_series.h"

#include <algorithm>

#include "base/format.h"

namespace reigen {

ShardSeries::ShardSeries(std::string directory, const Vocabulary& vocabulary, uint64_t shard_tokens)
    : directory_(std::move(directory)),
      vocabulary_(vocabulary),
      builder_(std::max(vocabulary.source().size(), vocabulary.size())),
      shard_tokens_(shard_tokens) {}

void ShardSeries::add(CorpusFacts& corpus, const PairItem& pair) {
  if (corpus_ != &corpus) flush();
  corpus_ = &corpus;
  builder_.add(pair.source_ids, pair.target_ids, vocabulary_.source().eos(), vocabulary_.eos());
  if (builder_.tokens() >= shard_tokens_) flush();
}

void ShardSeries::flush() {
  if (builder_.empty()) return;
  corpus_->shards.push_back(builder_.write(directory_, format("train-{:05}.shard", number_++)));
}

}  // namespace reigen
