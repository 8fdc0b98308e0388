#include "data/prepare/pair_item.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "text/language_tag.h"

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

Hash128 hash_of(const PairItem& pair, std::string_view to) {
  thread_local std::string joined;
  joined = pair.source;
  joined += '\0';
  joined += pair.target;
  if (!to.empty()) (joined += '\0') += to;
  return xxh3_128(joined);
}

const std::string& target_of(const CorpusSpec& spec, const PrepareOptions& options) {
  return spec.to.empty() ? options.target : spec.to;
}

std::optional<uint32_t> tag_of(const Vocabulary& vocabulary, const std::string& to) {
  if (to.empty()) return std::nullopt;
  const std::optional<uint32_t> tag = vocabulary.source().tag(to);
  if (tag) return tag;
  const std::vector<std::string> known = vocabulary.source().tagged_languages();
  throw DataError(format(
      "the vocabulary has no tag {} for the target language {}{}; train a vocabulary with "
      "these corpora, or correct to=",
      language_tag(to), to, known.empty() ? "" : format(", only for {}", fmt::join(known, ", "))));
}

void PairEncoder::encode(PairItem& pair, std::optional<uint32_t> tag) {
  if (tag) pair.source_ids.push_back(*tag);
  source_.encode(pair.source, pair.source_ids);
  (target_ ? *target_ : source_).encode(pair.target, pair.target_ids);
}

void count_pair(CorpusFacts& corpus, const PairItem& pair, const Vocabulary& vocabulary) {
  count_side(corpus.source, pair.source, pair.source_ids, vocabulary.source().unk());
  count_side(corpus.target, pair.target, pair.target_ids, vocabulary.unk());
}

}  // namespace reigen
