// Validation and test pairs: never filtered, and also written as text for scoring.
//
// Nothing is dropped from them, or scores could not be compared. Training must not see them: the
// `heldout` rule drops training pairs with their hashes.
#pragma once

#include <string>
#include <vector>

#include "config/prepare_options.h"
#include "data/manifest.h"
#include "data/prepare/pair_item.h"
#include "data/prepare/pair_set.h"

namespace reigen {

class HeldoutSplit {
 public:
  // `name` is "valid" or "test"; the spec has its language where the dataset has tags.
  HeldoutSplit(std::string name, const CorpusSpec& spec, const PrepareOptions& options,
               const Cleaner& cleaner);

  void add_to(PairSet& set) const;

  // Encodes all pairs and writes the HeldoutFiles of the corpus into a dataset with this manifest.
  CorpusFacts write(const std::string& directory, const Vocabulary& vocabulary, Manifest& manifest);

 private:
  void add(RawPair raw, const Cleaner& cleaner);

  std::string name_;
  CorpusFacts facts_;
  std::vector<PairItem> pairs_;
  uint64_t repaired_ = 0;
};

}  // namespace reigen
