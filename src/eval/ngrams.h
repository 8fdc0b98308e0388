// Counts n-grams of a hypothesis that its references contain: of words for BLEU, of characters for
// chrF.
//
// N-grams are nodes of a trie, found by parent and last symbol, so one walk counts every order,
// exactly (an n-gram is never replaced by its hash), and ends at the first n-gram that no reference
// has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reigen {

inline constexpr uint32_t kUnknownWord = UINT32_MAX;  // a symbol that no reference has

class NgramMatcher {
 public:
  explicit NgramMatcher(size_t max_order);

  void clear();  // cheap: memory is reused for the next sentence

  // An n-gram then counts as often as it stands in the reference that has it most often.
  void add_reference(std::span<const uint32_t> symbols);

  // Adds to matches[n - 1] how many n-grams of length n are in the references, each at most as
  // often as it counts there. Call it once, after the references.
  void match(std::span<const uint32_t> symbols, std::span<uint32_t> matches);

 private:
  struct Node {
    uint32_t most = 0;       // in any one reference
    uint32_t current = 0;    // in the reference now being added
    uint32_t reference = 0;  // the reference that `current` counts
    uint32_t used = 0;       // by the hypothesis
  };
  struct Slot {
    uint64_t key = 0;  // parent node and symbol
    uint32_t node = 0;
    uint32_t generation = 0;  // a slot of an older generation is free
  };

  size_t slot_of(uint64_t key) const;
  uint32_t child(uint32_t parent, uint32_t symbol);       // made when it is not there
  uint32_t find(uint32_t parent, uint32_t symbol) const;  // 0, the root, when it is not there
  void grow();

  size_t max_order_;
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  int shift_ = 0;
  uint32_t generation_ = 0;
  uint32_t references_ = 0;
};

}  // namespace reigen
