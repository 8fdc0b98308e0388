#include "eval/ngrams.h"

#include <algorithm>

namespace reigen {
namespace {

constexpr int kFirstBits = 12;
constexpr uint32_t kRoot = 0;

uint64_t key_of(uint32_t parent, uint32_t symbol) {
  return static_cast<uint64_t>(parent) << 32 | symbol;
}

}  // namespace

NgramMatcher::NgramMatcher(size_t max_order)
    : max_order_(max_order), slots_(size_t{1} << kFirstBits), shift_(64 - kFirstBits) {
  clear();
}

void NgramMatcher::clear() {
  nodes_.assign(1, Node{});
  references_ = 0;
  if (++generation_ == 0) {  // every four billion sentences the stamps start again
    std::fill(slots_.begin(), slots_.end(), Slot{});
    generation_ = 1;
  }
}

// The slot of the key, or the free slot for it, by Fibonacci hashing and linear probing.
size_t NgramMatcher::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (key * 0x9E3779B97F4A7C15ull) >> shift_;
  while (slots_[at].generation == generation_ && slots_[at].key != key) at = (at + 1) & mask;
  return at;
}

uint32_t NgramMatcher::find(uint32_t parent, uint32_t symbol) const {
  const Slot& slot = slots_[slot_of(key_of(parent, symbol))];
  return slot.generation == generation_ ? slot.node : kRoot;
}

uint32_t NgramMatcher::child(uint32_t parent, uint32_t symbol) {
  const uint64_t key = key_of(parent, symbol);
  size_t at = slot_of(key);
  if (slots_[at].generation == generation_) return slots_[at].node;
  if (nodes_.size() * 2 > slots_.size()) {
    grow();
    at = slot_of(key);
  }
  const auto node = static_cast<uint32_t>(nodes_.size());
  slots_[at] = {key, node, generation_};
  nodes_.emplace_back();
  return node;
}

void NgramMatcher::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  --shift_;
  for (const Slot& slot : old) {
    if (slot.generation == generation_) slots_[slot_of(slot.key)] = slot;
  }
}

void NgramMatcher::add_reference(std::span<const uint32_t> symbols) {
  ++references_;
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    uint32_t at = kRoot;
    for (uint32_t symbol : symbols.subspan(begin, std::min(max_order_, symbols.size() - begin))) {
      at = child(at, symbol);
      Node& node = nodes_[at];
      if (node.reference != references_) {
        node.reference = references_;
        node.current = 0;
      }
      node.most = std::max(node.most, ++node.current);
    }
  }
}

void NgramMatcher::match(std::span<const uint32_t> symbols, std::span<uint32_t> matches) {
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    const size_t most = std::min(max_order_, symbols.size() - begin);
    uint32_t at = kRoot;
    for (size_t n = 0; n < most; ++n) {
      at = find(at, symbols[begin + n]);
      if (at == kRoot) break;
      Node& node = nodes_[at];
      if (node.used < node.most) ++matches[n];
      ++node.used;
    }
  }
}

}  // namespace reigen
