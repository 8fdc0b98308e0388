// A membership that was formed by messages between standby ports, and its control channel, which
// runs on the links that the messages used.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/members/control_channel.h"
#include "dist/members/forming/succession.h"
#include "dist/members/peer_links.h"
#include "dist/members/rendezvous_server.h"

namespace reigen {

struct FormedMembership {
  int64_t epoch = 0;
  std::string id;
  std::vector<Member> members;  // by rank
  int rank = 0;
  std::string left_out;    // before, the others had continued without this worker
  bool stateless = false;  // this worker was added, and has to receive the training state
  std::string witness;     // who breaks ties of it; empty: its lowest rank
  bool has_added = false;  // it added workers, which have no vote on the next one
  std::map<WorkerId, LossReason> reasons;    // of workers that it leaves out
  std::unique_ptr<RendezvousServer> server;  // of the control channel, on the host of the forming
  std::unique_ptr<ControlChannel> control;
};

// Makes server and control channel of a membership that has just been formed, whose forming `host`
// hosted; all other members are set. A member to which no link is left is lost at once.
void connect_control(FormedMembership& formed, PeerLinks& links, const WorkerId& host,
                     std::chrono::milliseconds silence);

}  // namespace reigen
