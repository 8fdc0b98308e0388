// The meeting point of a job: a small server inside one of the members, on a thread of its own.
//
// Until everybody is there it admits members (they prove that they know the job's token), compares
// what they bring, and names who is missing or different. From then on it is the control channel:
// it notices who falls silent, and passes on stop requests, the first error and small values.
// Strangers are dropped and counted; nothing they send reaches a member.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/members/socket.h"

namespace reigen {

struct ServerOptions {
  int size = 1;
  int least = 0;  // start with so many when no more have come in time; 0 for all
  int64_t epoch = 0;
  int host_rank = 0;  // the member this server is in
  std::string token;
  std::vector<std::string> hosts;  // by rank, where it is known before they come
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};  // after which a member is lost
};

class RendezvousServer {
 public:
  RendezvousServer(const ServerOptions& options, Socket listener);
  ~RendezvousServer();  // for members that have not left, its host is lost
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  int port() const;
  int left() const;              // how many members have left in peace
  uint64_t turned_away() const;  // connections that were no member's

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
