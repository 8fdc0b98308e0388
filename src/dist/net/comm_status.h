// How an operation between workers ended. A lost peer is an expected outcome, so it is a value and
// not an exception: Job::check (dist/members/job.h) turns it into a CommError, which ends the
// attempt.
#pragma once

#include <cstdint>
#include <string>

namespace reigen {

enum class CommState : uint8_t { kOk, kLostPeer, kClosed, kTimeout, kUnreachable };

struct CommStatus {
  CommState state = CommState::kOk;
  int rank = -1;       // the rank that was lost or did not answer; -1 if unknown
  std::string host;    // its host; empty if unknown
  std::string detail;  // the evidence: "its connection closed", "no heartbeat for 10 s"

  bool ok() const { return state == CommState::kOk; }

  static CommStatus lost(int rank, std::string host, std::string detail);
  static CommStatus closed(std::string detail);
  static CommStatus timeout(int rank, std::string host, std::string detail);
  // The rank may be alive: only the link to it is known to be cut.
  static CommStatus unreachable(int rank, std::string host, std::string detail);
};

// Thrown inside a group's thread to end an operation; QueuedGroup turns it into a status.
struct CommFailure {
  CommStatus status;
};

// "lost rank 2 (vm2): no heartbeat for 10 s"
std::string describe(const CommStatus& status);

// "rank 2 (vm2)", "rank 2" if the host is unknown, "a worker" for a negative rank.
std::string rank_and_host(int rank, const std::string& host);

}  // namespace reigen
