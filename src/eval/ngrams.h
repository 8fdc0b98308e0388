// How many n-grams of a hypothesis its references hold: what BLEU counts in words, chrF in
// characters.
//
// N-grams are nodes of a tree, found by their parent and last symbol, so every order comes out of
// one walk, exactly (no hash stands for an n-gram), and a walk ends where the references know no
// more.
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

  void clear();  // cheap: memory is kept for the next sentence

  // An n-gram then counts as often as it stands in the reference that has it most often.
  void add_reference(std::span<const uint32_t> symbols);

  // Adds to matches[n - 1] how many n-grams of length n are in the references, each at most as
  // often as it counts there. Once after the references.
  void match(std::span<const uint32_t> symbols, std::span<uint32_t> matches);

 private:
  struct Node {
    uint32_t most = 0;       // in any one reference
    uint32_t current = 0;    // in the reference now being added
    uint32_t reference = 0;  // which one `current` speaks of
    uint32_t used = 0;       // by the hypothesis
  };
  struct Slot {
    uint64_t key = 0;  // parent node and symbol
    uint32_t node = 0;
    uint32_t generation = 0;  // other than ours: free
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
