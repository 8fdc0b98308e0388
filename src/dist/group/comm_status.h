// How an operation between workers ended. A lost peer is an outcome that the training loop handles,
// so it is a value and not an exception.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

enum class CommState : uint8_t { kOk, kLostPeer, kClosed, kTimeout };

struct CommStatus {
  CommState state = CommState::kOk;
  int rank = -1;       // who was lost, or was waited for; -1 when nobody knows
  std::string host;    // of that rank; empty when nobody knows
  std::string detail;  // what was seen: "connection closed", "no heartbeat for 10 s"

  bool ok() const { return state == CommState::kOk; }

  static CommStatus lost(int rank, std::string host, std::string detail);
  static CommStatus closed(std::string detail);
  static CommStatus timeout(int rank, std::string host, std::string detail);
};

// "lost rank 2 (vm2): no heartbeat for 10 s"
std::string describe(const CommStatus& status);

// "rank 2 (vm2)", or "rank 2" where the host is not known.
std::string rank_and_host(int rank, const std::string& host);

}  // namespace reigen
