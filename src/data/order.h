// In which order the pairs of an epoch are seen: a pure function of (seed, epoch), in no memory.
//
// A keyed permutation (a Feistel network over the next power of four, walked until it lands in
// range) gives the pair at any position directly. Shuffling a list would take 8 bytes a pair and a
// pass over all of them before the first batch, on every worker.
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
// different half of them each epoch; in general each pair comes floor(w) or ceil(w) times.
class EpochOrder {
 public:
  EpochOrder(const std::vector<Dataset::CorpusRange>& corpora, uint64_t seed, uint64_t epoch);

  uint64_t size() const { return shuffle_n_; }  // pairs seen in this epoch
  uint64_t pair_at(uint64_t position) const;

 private:
  struct Part {
    uint64_t end;  // in entries, before shuffling
    uint64_t first_pair;
    uint64_t pairs;
    Permutation within;
  };
  std::vector<Part> parts_;
  uint64_t shuffle_n_;
  Permutation shuffle_;
};

}  // namespace reigen
