// The number of pieces on each side of a model.
#pragma once

#include <cstdint>

namespace reigen {

// One joint vocabulary, whose ids mean the same on both sides, or one for each language.
struct PieceCounts {
  PieceCounts(uint64_t joint) : source(joint), target(joint) {}
  static PieceCounts separate(uint64_t source, uint64_t target) {
    PieceCounts counts(target);
    counts.source = source;
    counts.joint = false;
    return counts;
  }

  uint64_t source;
  uint64_t target;
  bool joint = true;
};

}  // namespace reigen
