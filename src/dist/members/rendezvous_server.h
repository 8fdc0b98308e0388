// The rendezvous of a job: a small server inside one of the workers, on its own thread.
//
// Until all workers have joined it authenticates them (they prove that they know the job's token),
// compares their facts, and names those that are missing or different. From then on it is the
// control channel: it notices missing heartbeats, and forwards the first error and small values.
// Connections without the token are closed and counted; nothing they send reaches a worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/net/channel.h"

namespace reigen {

struct ServerOptions {
  int size = 1;
  int64_t epoch = 0;
  bool elastic = false;     // workers that leave are named to the others
  int rendezvous_rank = 0;  // the worker that runs this server
  std::string token;
  Encryption encryption;
  std::vector<std::string> hosts;  // names by rank, to name those missing; may be empty
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};  // a worker without a heartbeat for this long is lost
};

// A member of a membership that was formed without a rendezvous (standby.h), and the connection to
// it; not open for one whose connection ended meanwhile.
struct ServedMember {
  int rank = 0;
  std::string host;
  Channel channel;
  std::string unread;  // bytes that came already, and that were not sent yet
  std::string unsent;
};

class RendezvousServer {
 public:
  RendezvousServer(const ServerOptions& options, Socket listener);
  // The control channel alone: no worker joins any more.
  RendezvousServer(const ServerOptions& options, std::vector<ServedMember> members);
  ~RendezvousServer();  // workers that have not left count its host as lost
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  int port() const;
  int left() const;           // workers that have left in order
  uint64_t rejected() const;  // connections that did not prove the token

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
