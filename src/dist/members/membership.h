// A worker among workers: the rendezvous it joined, the group it computes with, and one answer to
// the question who was lost.
//
// The group notices that a connection broke, often one to a worker that merely gave up first; the
// control channel knows who really went. A membership closes the group as soon as either notices.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/group/group.h"
#include "dist/members/interface.h"
#include "dist/members/rendezvous.h"
#include "dist/members/rendezvous_server.h"

namespace reigen {

struct MembershipOptions {
  int rank = 0;
  int size = 1;
  int64_t epoch = 0;
  int least = 0;                     // go on with so many when no more come; 0 for all
  int host_rank = 0;                 // who hosts the rendezvous
  std::vector<Endpoint> rendezvous;  // where it is
  Socket listener;                   // the host's; closed elsewhere
  std::string token;
  std::vector<std::string> hosts;  // by rank, where it is known before they come
  std::string host;                // this machine's name; empty to ask the system
  std::string interface;           // to use for data; empty to choose by reachability
  std::map<std::string, std::string> facts;
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};
  std::chrono::milliseconds timeout{0};  // for one message between workers; 0 for none
};

class Membership {
 public:
  // Throws CommError (and ConfigError for an interface that is not there).
  explicit Membership(MembershipOptions options);
  ~Membership();  // to the others this worker is lost, unless it has left
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Group& group() { return *group_; }
  Rendezvous& control() { return *control_; }
  const NetworkInterface& interface() const { return interface_; }
  // What is odd about the one that was asked for, or empty.
  const std::string& interface_note() const { return interface_note_; }
  uint64_t turned_away() const { return server_ ? server_->turned_away() : 0; }

  // The loss behind a status: the control channel's word, waited for as long as it may take.
  CommStatus explain(const CommStatus& status) const;

  // Everybody ends in peace: after the last operation, at a moment all know of.
  CommStatus leave();

  // What the next epoch begins with, for those who go on: hosted by the lowest of `survivors`
  // (ranks of this membership), each with its place among them as its rank. This membership is
  // closed.
  MembershipOptions next_epoch(const std::vector<int>& survivors);

 private:
  void choose_interface();

  MembershipOptions options_;
  NetworkInterface interface_;
  std::string interface_note_;
  Socket standby_;  // where this member would host the next rendezvous
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<Rendezvous> control_;
  std::unique_ptr<Group> group_;
};

}  // namespace reigen
