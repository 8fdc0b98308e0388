#include "data/prepare/pair_set.h"

namespace reigen {
namespace {

constexpr Hash128 kFree = {0, 0};

// The one hash that looks like a free slot is stored as its neighbour.
Hash128 storable(Hash128 hash) { return hash == kFree ? Hash128{1, 0} : hash; }

}  // namespace

PairSet::PairSet() : slots_(1024) {}

size_t PairSet::slot_of(Hash128 hash) const {
  size_t mask = slots_.size() - 1;
  size_t at = hash.low & mask;
  while (!(slots_[at] == kFree) && !(slots_[at] == hash)) at = (at + 1) & mask;
  return at;
}

bool PairSet::contains(Hash128 hash) const { return !(slots_[slot_of(storable(hash))] == kFree); }

bool PairSet::insert(Hash128 hash) {
  hash = storable(hash);
  size_t at = slot_of(hash);
  if (slots_[at] == hash) return false;
  slots_[at] = hash;
  if (++used_ * 4 > slots_.size() * 3) grow();
  return true;
}

void PairSet::grow() {
  std::vector<Hash128> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Hash128& hash : old) {
    if (!(hash == kFree)) slots_[slot_of(hash)] = hash;
  }
}

}  // namespace reigen
