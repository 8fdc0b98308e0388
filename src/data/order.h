// The order of the pairs in an epoch: a pure function of (seed, epoch) that takes no memory.
//
// A keyed permutation (a Feistel network over the next power of four, applied until the result is
// in range) gives the pair at any position directly. A shuffled list would take 8 bytes per pair
// and a pass over all pairs before the first batch, on every worker.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace reigen {

// A permutation of 0..n-1 chosen by `key`.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t key);
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 6;
  uint64_t n_;
  int half_bits_;
  uint64_t keys_[kRounds];
};

// One epoch over weighted corpora. Weight 2 shows each pair of a corpus twice; weight 0.5 shows a
// different half of them in each epoch; in general each pair is shown floor(w) or ceil(w) times.
class EpochOrder {
 public:
  EpochOrder(const std::vector<Dataset::CorpusRange>& corpora, uint64_t seed, uint64_t epoch);

  uint64_t size() const { return shuffle_n_; }  // pairs shown in this epoch
  uint64_t pair_at(uint64_t position) const;

 private:
  struct CorpusEntries {
    uint64_t end;  // in entries, before shuffling
    uint64_t first_pair;
    uint64_t pairs;
    Permutation within;
  };
  std::vector<CorpusEntries> corpora_;
  uint64_t shuffle_n_;
  Permutation shuffle_;
};

}  // namespace reigen
