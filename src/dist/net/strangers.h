// Room for connections that have not proved yet that they belong to the job.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <string>

namespace reigen {

inline constexpr size_t kMostStrangers = 64;
inline constexpr std::chrono::milliseconds kProveWithin{5'000};
inline constexpr std::chrono::milliseconds kBetweenTries{100};  // of a member that was turned away

// Breaks one connection where there are more than kMostStrangers: the oldest of the address that
// has most of them, so that whoever floods a port gives way to others. `is_stranger` tells which
// ones count; they have an address `from`, a flag `broken`, and stand in the order they came.
template <class C, class IsStranger>
void evict_stranger(std::list<C>& connections, IsStranger is_stranger) {
  std::map<std::string, size_t> by_address;
  size_t all = 0;
  for (const C& c : connections) {
    if (c.broken || !is_stranger(c)) continue;
    ++by_address[c.from];
    ++all;
  }
  if (all <= kMostStrangers) return;
  const auto most = std::max_element(by_address.begin(), by_address.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  for (C& c : connections) {
    if (c.broken || !is_stranger(c) || c.from != most->first) continue;
    c.broken = true;
    return;
  }
}

}  // namespace reigen
