// Philox4x32-7 (Salmon et al. 2011): random bits as a pure function of a key and a counter.
//
// Seven rounds are the fewest that pass every test of BigCrush in that paper; ten, the paper's
// default, are a margin that dropout does not need. Masks are drawn in forward and again in
// backward. This is the scalar definition that every device's vector code must match bit by bit.
#pragma once

#include <array>
#include <cstdint>

namespace reigen {

inline constexpr int kPhiloxRounds = 7;

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The place of a random decision in a run. The same values give the same decision on every worker
// and every time: backward draws the mask again instead of storing it.
struct RandomSite {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t site = 0;  // which dropout of the model; below 65,536
};

std::array<uint32_t, 2> philox_key(const RandomSite& site);

// For eight neighbouring elements of one token: `token` is its number in the global batch (below
// 2^48), `block` the element's index divided by eight, in attention also the head. Element i of
// the eight uses the i-th 16-bit half: low half of word 0, high half of word 0, low of word 1, ...
std::array<uint32_t, 4> philox_counter(const RandomSite& site, uint64_t token, uint32_t block);

// An element is dropped when its 16 bits are below this.
uint32_t drop_threshold(float rate);

}  // namespace reigen
