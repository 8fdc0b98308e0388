#include "data/piece_entropy.h"

#include <algorithm>
#include <cmath>

namespace reigen {

double piece_entropy(const Dataset& train, uint64_t pieces, uint64_t most) {
  std::vector<uint64_t> counts(pieces, 0);
  std::vector<uint32_t> tokens;
  uint64_t total = 0;
  const uint64_t stride = std::max<uint64_t>(1, (train.pairs() + most - 1) / most);
  for (uint64_t pair = 0; pair < train.pairs(); pair += stride) {
    tokens.clear();
    train.append_target(pair, tokens);
    for (const uint32_t token : tokens) ++counts.at(token);
    total += tokens.size();
  }
  double entropy = 0;
  for (const uint64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(total);
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace reigen
