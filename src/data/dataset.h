// A prepared directory, opened for training: mapped shards behind one numbering of pairs.
//
// Shards are checked in full when opened. Apart from the mapping, memory is a few bytes a shard,
// not a pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/manifest.h"
#include "data/shard.h"

namespace reigen {

// One split (train, valid or test). Pairs are numbered from 0 through all corpora and shards.
class Dataset {
 public:
  Dataset(const std::string& directory, const std::vector<CorpusFacts>& corpora);

  uint64_t pairs() const { return first_pair_.back(); }
  uint32_t source_length(uint64_t pair) const;  // in tokens, end of sentence included
  uint32_t target_length(uint64_t pair) const;
  void append_source(uint64_t pair, std::vector<uint32_t>& out) const;
  void append_target(uint64_t pair, std::vector<uint32_t>& out) const;

  // The pairs of each corpus are one range; its weight says how often they count.
  struct CorpusRange {
    uint64_t first = 0;
    uint64_t pairs = 0;
    double weight = 1;
  };
  const std::vector<CorpusRange>& corpora() const { return corpora_; }

 private:
  struct Place {
    const Shard& shard;
    uint64_t pair;
  };
  Place find(uint64_t pair) const;

  std::vector<Shard> shards_;
  std::vector<uint64_t> first_pair_ = {0};  // of each shard, and the total behind them
  std::vector<CorpusRange> corpora_;
};

// That every file the manifest names is there and as long as it says; throws DataError otherwise.
void check_files(const std::string& directory, const Manifest& manifest);

// Checks every file of a prepared directory against SHA256SUMS and the manifest, and every shard
// against its own checksums; returns how many files that were. Throws DataError naming the first
// that differs.
size_t verify_directory(const std::string& directory);

}  // namespace reigen
