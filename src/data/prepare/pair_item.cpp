#include "data/prepare/pair_item.h"

#include <algorithm>

namespace reigen {
namespace {

void count_side(SideFacts& side, const std::string& text, const std::vector<uint32_t>& ids,
                uint32_t unk) {
  side.bytes += text.size() + 1;
  side.pieces += ids.size();
  side.unknown += static_cast<uint64_t>(std::count(ids.begin(), ids.end(), unk));
  side.lengths.add(static_cast<uint32_t>(ids.size()));
}

}  // namespace

Hash128 hash_of(const PairItem& pair) {
  thread_local std::string joined;
  joined = pair.source;
  joined += '\0';
  joined += pair.target;
  return xxh3_128(joined);
}

void PairEncoder::encode(PairItem& pair) {
  source_.encode(pair.source, pair.source_ids);
  (target_ ? *target_ : source_).encode(pair.target, pair.target_ids);
}

void count_pair(CorpusFacts& corpus, const PairItem& pair, const Vocabulary& vocabulary) {
  count_side(corpus.source, pair.source, pair.source_ids, vocabulary.source().unk());
  count_side(corpus.target, pair.target, pair.target_ids, vocabulary.unk());
}

}  // namespace reigen
