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
  // `name` is "valid" or "test".
  HeldoutSplit(std::string name, const CorpusSpec& spec, const PrepareOptions& options,
               const Cleaner& cleaner);

  void add_to(PairSet& set) const;

  // Encodes all pairs and writes NAME.shard, NAME.<source> and NAME.<target>.
  CorpusFacts write(const std::string& directory, const Vocabulary& vocabulary,
                    std::vector<OutputFile>& texts);

 private:
  void add(RawPair raw, const Cleaner& cleaner);

  std::string name_;
  std::string languages_[2];
  CorpusFacts facts_;
  std::vector<PairItem> pairs_;
  uint64_t repaired_ = 0;
};

}  // namespace reigen
