#include "text/charsmap.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "base/format.h"

namespace reigen {
namespace {

// SentencePiece's own normalisers have at most 60,000 units.
constexpr size_t kMostUnits = 1 << 20;
// SentencePiece collects the matches at one place of a text in an array of 32, and reads beyond its
// end where there are more.
constexpr int kMostMatches = 32;
constexpr uint32_t kLabels = 256;

// A node of the array, in the layout of darts-clone.
struct TrieUnit {
  uint32_t bits;

  bool has_leaf() const { return ((bits >> 8) & 1) != 0; }
  uint32_t value() const { return bits & 0x7FFF'FFFFu; }
  uint32_t label() const { return bits & 0x8000'00FFu; }
  uint32_t offset() const { return (bits >> 10) << ((bits & (1u << 9)) >> 6); }
};

class TrieCheck {
 public:
  TrieCheck(std::string_view trie, std::string_view texts)
      : units_(trie.size() / sizeof(TrieUnit)), texts_(texts.size()) {
    std::memcpy(units_.data(), trie.data(), units_.size() * sizeof(TrieUnit));
    states_.resize(units_.size());
    list_children();
  }

  // Depth-first, without recursion: a trie may be as deep as it has units.
  std::string fault() {
    if (!enter(0)) return fault_;
    while (!path_.empty()) {
      Visit& top = path_.back();
      if (top.next_child == first_child_[top.base + 1]) {
        leave();
        continue;
      }
      const uint32_t child = children_[top.next_child++];
      if (states_[child].on_path) return "its trie has a cycle";
      if (!states_[child].done && !enter(child)) return fault_;
      if (states_[child].done) add_matches(child);
    }
    return states_[0].matches > kMostMatches
               ? format("a text has {} replacements at one place; the limit is {}",
                        states_[0].matches, kMostMatches)
               : "";
  }

 private:
  struct State {
    bool on_path = false;
    bool done = false;
    int matches = 0;  // the most on one walk from here, its own leaf included
  };
  struct Visit {
    uint32_t position;
    uint32_t base;        // children are at base ^ label
    uint32_t next_child;  // in children_
  };

  // A unit with a label is the child of one base only. Sorted by base, so that a visit looks at no
  // other unit.
  void list_children() {
    first_child_.resize(units_.size() + 1);
    auto base_of = [&](uint32_t at) -> std::optional<uint32_t> {
      const uint32_t label = units_[at].label();
      const uint32_t base = at ^ label;
      if (label >= kLabels || base >= units_.size()) return std::nullopt;
      return base;
    };
    const auto units = static_cast<uint32_t>(units_.size());
    for (uint32_t at = 0; at < units; ++at) {
      if (const auto base = base_of(at)) ++first_child_[*base + 1];
    }
    std::partial_sum(first_child_.begin(), first_child_.end(), first_child_.begin());
    children_.resize(first_child_.back());
    std::vector<uint32_t> next(first_child_.begin(), first_child_.end() - 1);
    for (uint32_t at = 0; at < units; ++at) {
      if (const auto base = base_of(at)) children_[next[*base]++] = at;
    }
  }

  bool enter(uint32_t position) {
    const TrieUnit unit = units_[position];
    const uint32_t base = position ^ unit.offset();
    if ((base | (kLabels - 1)) >= units_.size()) {
      fault_ = format("unit {} of its trie points to {} of {}", position, base, units_.size());
      return false;
    }
    // The leaf of the root would be a replacement of no text; it is never asked for.
    const bool leaf = position != 0 && unit.has_leaf();
    if (leaf && units_[base].value() >= texts_) {
      fault_ = format("unit {} of its trie has a replacement at byte {} of {}", position,
                      units_[base].value(), texts_);
      return false;
    }
    states_[position] = {.on_path = true, .matches = leaf ? 1 : 0};
    path_.push_back({position, base, first_child_[base]});
    return true;
  }

  void leave() {
    const uint32_t position = path_.back().position;
    states_[position].on_path = false;
    states_[position].done = true;
    path_.pop_back();
    if (!path_.empty()) add_matches(position);
  }

  // Of a child to the node above it on the path.
  void add_matches(uint32_t child) {
    State& above = states_[path_.back().position];
    const bool leaf = path_.back().position != 0 && units_[path_.back().position].has_leaf();
    above.matches = std::max(above.matches, states_[child].matches + (leaf ? 1 : 0));
  }

  std::vector<TrieUnit> units_;
  size_t texts_;
  std::vector<uint32_t> children_;
  std::vector<uint32_t> first_child_;  // by base
  std::vector<State> states_;
  std::vector<Visit> path_;
  std::string fault_;
};

}  // namespace

std::string charsmap_fault(std::string_view charsmap) {
  uint32_t trie_bytes = 0;
  if (charsmap.size() < sizeof trie_bytes) return "too short";
  std::memcpy(&trie_bytes, charsmap.data(), sizeof trie_bytes);
  charsmap.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > charsmap.size() || trie_bytes < kLabels * sizeof(TrieUnit)) {
    return format("its trie of {} bytes does not fit", trie_bytes);
  }
  if (trie_bytes / sizeof(TrieUnit) > kMostUnits) {
    return format("its trie has more than {} units", kMostUnits);
  }
  const std::string_view texts = charsmap.substr(trie_bytes);
  if (texts.empty() || texts.back() != '\0') return "its last replacement has no end";
  return TrieCheck(charsmap.substr(0, trie_bytes), texts).fault();
}

}  // namespace reigen
