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
inline constexpr int kMostAcceptsAtOnce = 16;  // then the others are served
inline constexpr std::chrono::milliseconds kProveWithin{5'000};
inline constexpr std::chrono::milliseconds kBetweenTries{100};  // of a member that was turned away

// When to poll a listener again after accept() failed: without descriptors or memory the listener
// stays readable, and poll() would return at once without end.
class AcceptPause {
 public:
  // After a failed accept() with that errno; a pause unless there was only no connection.
  void failed(int error_number);
  bool over() const { return std::chrono::steady_clock::now() >= until_; }

 private:
  std::chrono::steady_clock::time_point until_;
};

// The block of addresses that one owner usually has: the /64 of an IPv6 address, or the IPv4
// address itself.
std::string network_of(const std::string& address);

// Breaks one connection where there are more than kMostStrangers: the oldest of the network that
// has most of them, so that a host that floods a port gives way to others. `is_stranger` selects
// the ones that count; they have a network `from`, a flag `broken`, and stand in the order they
// came.
template <class C, class IsStranger>
void evict_stranger(std::list<C>& connections, IsStranger is_stranger) {
  std::map<std::string, size_t> by_network;
  size_t all = 0;
  size_t most = 0;
  for (const C& c : connections) {
    if (c.broken || !is_stranger(c)) continue;
    most = std::max(most, ++by_network[c.from]);
    ++all;
  }
  if (all <= kMostStrangers) return;
  const auto victim = std::find_if(connections.begin(), connections.end(), [&](const C& c) {
    return !c.broken && is_stranger(c) && by_network[c.from] == most;
  });
  victim->broken = true;
}

}  // namespace reigen
