#include "data/order.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"

namespace reigen {
namespace {

uint64_t entries_of(const Dataset::CorpusRange& corpus) {
  if (corpus.pairs == 0) return 0;
  double wanted = std::round(corpus.weight * static_cast<double>(corpus.pairs));
  return std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
}

uint64_t total_entries(const std::vector<Dataset::CorpusRange>& corpora) {
  uint64_t sum = 0;
  for (const auto& corpus : corpora) sum += entries_of(corpus);
  return sum;
}

uint64_t epoch_key(uint64_t seed, uint64_t epoch, uint64_t purpose) {
  return mix64(mix64(mix64(seed) + epoch) + purpose);
}

}  // namespace

Permutation::Permutation(uint64_t n, uint64_t key)
    : n_(n), half_bits_(n <= 1 ? 1 : (std::bit_width(n - 1) + 1) / 2) {
  for (int r = 0; r < kRounds; ++r) keys_[r] = mix64(key + static_cast<uint64_t>(r));
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {  // the domain is at most four times n, so this repeats three times on average at worst
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (uint64_t key : keys_) {
      uint64_t next = left ^ (mix64(right ^ key) & mask);
      left = right;
      right = next;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

EpochOrder::EpochOrder(const std::vector<Dataset::CorpusRange>& corpora, uint64_t seed,
                       uint64_t epoch)
    : shuffle_n_(total_entries(corpora)), shuffle_(shuffle_n_, epoch_key(seed, epoch, 0)) {
  uint64_t end = 0;
  for (size_t c = 0; c < corpora.size(); ++c) {
    end += entries_of(corpora[c]);
    corpora_.push_back({end, corpora[c].first, corpora[c].pairs,
                        Permutation(corpora[c].pairs, epoch_key(seed, epoch, c + 1))});
  }
}

uint64_t EpochOrder::pair_at(uint64_t position) const {
  uint64_t entry = shuffle_(position);
  auto corpus = std::upper_bound(corpora_.begin(), corpora_.end(), entry,
                                 [](uint64_t e, const CorpusEntries& c) { return e < c.end; });
  uint64_t begin = corpus == corpora_.begin() ? 0 : std::prev(corpus)->end;
  return corpus->first_pair + corpus->within((entry - begin) % corpus->pairs);
}

}  // namespace reigen
