// A dataset opened for training: memory-mapped shards with one numbering of all pairs.
//
// Shards are verified when opened: their checksums, their counts against the manifest, their tokens
// against the vocabulary. Apart from the mapping, memory is a few bytes per shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/manifest.h"
#include "data/shard.h"
#include "text/vocabulary.h"

namespace reigen {

// One split (train, valid or test). Pairs are numbered from 0 across all corpora and shards.
class Dataset {
 public:
  // `pieces`: the sizes of the vocabularies. Throws DataError naming the file that is wrong.
  Dataset(const std::string& directory, const std::vector<CorpusFacts>& corpora,
          const PieceCounts& pieces);

  uint64_t pairs() const { return first_pair_.back(); }
  uint32_t source_length(uint64_t pair) const;  // in tokens, end of sentence included
  uint32_t target_length(uint64_t pair) const;
  void append_source(uint64_t pair, std::vector<uint32_t>& out) const;
  void append_target(uint64_t pair, std::vector<uint32_t>& out) const;
  const std::string& file_of(uint64_t pair) const;  // the path of its shard

  // The pairs of a corpus are one range; weight is the number of times an epoch shows them.
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
  std::vector<uint64_t> first_pair_ = {0};  // of each shard; the last entry is the total
  std::vector<CorpusRange> corpora_;
};

// The vocabulary of a dataset; throws DataError unless it is the one that the manifest records, by
// checksum, size and kind.
Vocabulary open_vocabulary(const std::string& directory, const Manifest& manifest);

// Throws DataError unless every file of the manifest exists with the recorded size, and every shard
// has the recorded counts in its header.
void check_files(const std::string& directory, const Manifest& manifest);

// Checks every file of a dataset against SHA256SUMS and the manifest, and every shard like a
// Dataset does; returns the number of files. Throws DataError naming the first that differs.
size_t verify_directory(const std::string& directory);

}  // namespace reigen
