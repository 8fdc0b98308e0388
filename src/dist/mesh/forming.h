// How a mesh comes to be: every rank connects to all lower ranks and accepts the higher ones.
//
// A listener takes any connection. Both ends first prove that they know the job's token, for this
// forming and these two ranks; a connection that does not is dropped and changes nothing. When
// strangers hold too many, the oldest of the address that has most of them gives way, and a rank
// that was turned away tries again until the deadline.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "dist/net/channel.h"

namespace reigen {

struct FormingOptions {
  int rank = 0;
  int size = 1;
  std::vector<Endpoint> peers;       // the listeners of all ranks
  const Socket* listener = nullptr;  // this rank's; stays open
  std::vector<std::string> hosts;    // by rank, for error messages; may be empty
  std::string token;                 // authenticates every connection
  std::string id;                    // of this forming: random, the same on all ranks
  Encryption encryption;
  std::chrono::milliseconds within{30'000};        // for the whole forming
  std::chrono::milliseconds reach_within{30'000};  // for a listener to take a connection
  std::function<void()> check = [] {};             // called now and then; may throw to give up
};

// Two workers that cannot be in one mesh.
struct UnreachablePeer : CommError {
  UnreachablePeer(int peer, const std::string& message) : CommError(message), rank(peer) {}
  int rank;
};

struct MeshLink {
  Channel channel;
  std::string unread;  // bytes that came right after the proof
};

// The connections by rank; that of the own rank is not open. Throws UnreachablePeer, and what
// check() throws.
std::vector<MeshLink> form_mesh(const FormingOptions& options);

}  // namespace reigen
