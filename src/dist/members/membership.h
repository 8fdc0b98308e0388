// Start here: a worker's membership in its job. It joins the rendezvous, forms the group, and names
// the worker that was lost.
//
// The group notices broken connections, often to a worker that only stopped because of the loss;
// the control channel (control_channel.h) knows which worker was lost first. A membership closes
// the group as soon as either notices.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/group/group.h"
#include "dist/members/control_channel.h"
#include "dist/members/interface.h"
#include "dist/members/rendezvous_server.h"

namespace reigen {

struct MembershipOptions {
  int rank = 0;
  int size = 1;
  int64_t epoch = 0;
  int rendezvous_rank = 0;           // the rank that hosts the rendezvous
  std::vector<Endpoint> rendezvous;  // its addresses
  Socket listener;                   // of rank rendezvous_rank; closed elsewhere
  std::string token;
  bool secret = true;  // whether the token is one
  Encrypt encrypt = Encrypt::kAuto;
  std::vector<std::string> hosts;  // names by rank, for messages; may be empty
  std::string host;                // this machine's name; empty for the system's
  std::string interface;           // for data; empty for the one with a route to the rendezvous
  std::map<std::string, std::string> facts;  // must be equal on all workers
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};  // a worker without a heartbeat for this long is lost
  std::chrono::milliseconds timeout{0};       // for one message between workers; 0 for none
};

class Membership {
 public:
  // Returns when the group is formed. Throws CommError, or ConfigError for a wrong interface.
  explicit Membership(MembershipOptions options);
  ~Membership();  // without leave() the others count this worker as lost
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Group& group() { return *group_; }
  ControlChannel& control() { return *control_; }
  const ControlChannel& control() const { return *control_; }
  const NetworkInterface& interface() const { return interface_; }
  // Whether the job has a secret, and whether its connections are encrypted: in words for the log
  // and the report, empty for connections that do not leave the machine and are not encrypted.
  bool secret() const { return options_.secret; }
  std::string encryption() const;
  // A warning if the route to the rendezvous uses a different interface than --interface; or empty.
  const std::string& interface_note() const { return interface_note_; }

  // The loss behind a failed operation, from the control channel; waits until the channel must have
  // noticed it.
  CommStatus explain(const CommStatus& status) const;

  // Ends the membership in order: all workers call it after the same last operation.
  CommStatus leave();

  // Options for the next epoch, formed by `survivors` (ranks of this membership) alone: the lowest
  // hosts the rendezvous, and each gets its index among them as its rank. Closes this membership.
  // The training loop does not use it yet: there a lost worker ends the run.
  MembershipOptions next_epoch(const std::vector<int>& survivors);

 private:
  void choose_interface();
  void join();
  void open_listener();
  void form_group();
  // Throws CommError if another worker has ended.
  void check_others() const;

  MembershipOptions options_;
  NetworkInterface interface_;
  std::string interface_note_;
  Encryption encryption_;
  std::vector<Member> members_;
  // Takes the data connections, and then stays for the rendezvous of the next epoch.
  Socket listener_;
  int encrypted_peers_ = 0;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<ControlChannel> control_;
  std::unique_ptr<Group> group_;
};

}  // namespace reigen
