// The set of pairs seen so far: 128-bit hashes in one flat table, 16 bytes per slot.
//
// With 128 bits, a chance collision among a billion pairs has a probability of about 10^-20, so
// equal hashes mean equal pairs. A node-based set would take three times the memory.
#pragma once

#include <cstddef>
#include <vector>

#include "base/hash.h"

namespace reigen {

class PairSet {
 public:
  PairSet();

  bool insert(Hash128 hash);  // false if it was already in the set
  bool contains(Hash128 hash) const;
  size_t size() const { return used_; }

 private:
  size_t slot_of(Hash128 hash) const;
  void grow();

  std::vector<Hash128> slots_;  // all zero means free
  size_t used_ = 0;
};

}  // namespace reigen
