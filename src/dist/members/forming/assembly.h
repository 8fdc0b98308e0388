// One worker's part in forming the next membership (docs/design/elastic.md), without sockets.
//
// Messages, broken connections and the time go in; messages and the outcome come out, so that a
// test can play thousands of schedules; standby.h carries them. Workers that lost their group look
// for the lowest rank that they reach, which becomes the host; the host proposes those who came, as
// far as the rule of succession (succession.h) allows, and declares the membership formed when all
// of them have accepted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dist/members/forming/succession.h"
#include "dist/members/forming/witness.h"

namespace reigen {

struct FormingMessage {
  enum class Kind : uint8_t {
    kAsk,      // who is there?
    kHere,     // the answer; also sent to followers by a host that follows a lower rank from now on
    kJoin,     // a follower's record
    kLeave,    // it looks elsewhere
    kPropose,  // the rest is about `proposal`
    kAccept,
    kFormed,
    kAborted,  // without an id: the host has no quorum, its followers look elsewhere
  };
  Kind kind = Kind::kAsk;
  std::optional<WorkerId> follows = {};  // kHere: nothing from a worker that may host
  Asking asking = {};                    // kJoin, as are the next three
  std::vector<EndProof> ended = {};
  std::vector<WorkerId> lost = {};         // no worker has to wait for them
  std::vector<WorkerId> unreachable = {};  // cannot be in one membership with the sender
  std::vector<WorkerId> given_up = {};     // have ended, by the word of the operator
  Proposal proposal = {};
};

struct AssemblyTimes {
  std::chrono::milliseconds answer{300};    // for kHere
  std::chrono::milliseconds gather{1'000};  // for a quorum, and then for those not known to be lost
  std::chrono::milliseconds silence{10'000};
};

class Assembly {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Losses {
    std::vector<WorkerId> lost;         // for any reason
    std::vector<WorkerId> unreachable;  // of these: no answer, and not because a connection closed
  };
  Assembly(Asking self, std::vector<EndProof> ended, const Losses& losses,
           const AssemblyTimes& times, Time now);

  void receive(const WorkerId& from, const FormingMessage& message, Time now);
  void disconnected(const WorkerId& peer, Time now);  // refused or closed
  void tick(Time now);                                // every few milliseconds
  // Known only now: ends that were proven, and workers that no other has to wait for.
  void learn(const std::vector<EndProof>& ended, const std::vector<WorkerId>& lost);
  // Workers that ask to be added, with their Asking: where this one hosts, and the last membership
  // is complete, the next one has them, too.
  void set_joiners(std::vector<Asking> joiners) { joiners_ = std::move(joiners); }
  // This worker is one of them, and waits for the proposal of `host`. It never looks for others: a
  // caller drops an assembly that follows no more.
  void await_proposal_of(const WorkerId& host, Time now);
  bool follows() const { return state_ == State::kFollowing; }
  // The operator's word that every worker that is not connected to this one has ended. It does not
  // count for a worker that is connected, or comes later, to this one or to the host.
  void trust_that_others_ended();
  // What half of a membership may need from the witness, and its answers. A witness that is lost
  // is asked no more, and has no part in the next membership.
  std::vector<Tie> take_questions() { return witness_.take_questions(); }
  void learn_answer(const Tie& tie, bool granted) { witness_.learn(tie, granted); }
  void lose_witness();
  // The workers that this one has a proven connection to, with or without a part in this round.
  void set_connected(std::set<WorkerId> workers) { connected_ = std::move(workers); }

  struct Outgoing {
    WorkerId to;
    FormingMessage message;
  };
  std::vector<Outgoing> take_outgoing();

  // The membership, once it is formed. Nothing happens afterwards.
  const std::optional<Proposal>& formed() const { return formed_; }
  // Its host, once it is formed.
  const WorkerId& host() const { return host_; }
  // Workers whose end was proven to the host when it proposed.
  const std::set<WorkerId>& proven() const { return proven_; }
  // To be stored by the parent process before the messages that were taken are sent.
  const MembershipRecord& record() const { return self_.record; }
  // Why the workers that are here may not continue; empty if they may.
  const std::string& why_waiting() const { return why_; }

 private:
  enum class State : uint8_t { kLooking, kFollowing, kHosting, kProposing };

  void look(Time now);
  void choose(Time now);
  void follow(const WorkerId& host, Time now);
  void join_host();
  void receive_here(const WorkerId& from, const FormingMessage& message, Time now);
  void receive_as_follower(const FormingMessage& message, Time now);
  void drop(const WorkerId& follower, Time now);
  bool is_lower(const WorkerId& worker) const;
  bool is_here(const WorkerId& worker) const;
  bool was_told_to_continue() const;
  void begin_with_all();
  void try_to_propose(Time now);
  bool waits_for_witness(const std::vector<Asking>& present, const std::vector<EndProof>& ended,
                         Time now);
  void assure_followers(Time now);
  std::vector<Asking> those_to_propose(std::vector<EndProof>& ended);
  bool may_answer(const WorkerId& member, Time now) const;
  bool expects_more(const Proposal& base, const std::vector<Asking>& present, Time now) const;
  void propose(Proposal proposal, Time now);
  void accepted_by(const WorkerId& worker);
  void abort_proposal(Time now);
  void send(const WorkerId& to, FormingMessage message) {
    outgoing_.push_back({to, std::move(message)});
  }

  Asking self_;
  std::vector<EndProof> ended_;
  std::set<WorkerId> lost_;
  std::set<WorkerId> unreachable_;
  std::set<WorkerId> given_up_;
  std::set<WorkerId> connected_;
  std::vector<Asking> joiners_;
  AssemblyTimes times_;
  State state_ = State::kLooking;
  Time since_;                                           // of the state
  Time heard_;                                           // from the host
  Time said_;                                            // to the followers
  std::map<WorkerId, std::optional<WorkerId>> answers_;  // kHere of lower ranks in this round
  std::set<WorkerId> left_out_;                          // hosts without a quorum
  WorkerId host_;
  std::map<WorkerId, FormingMessage> joined_;  // kJoin of each follower
  std::optional<Time> quorum_since_;
  Proposal proposal_;
  std::set<WorkerId> accepted_;
  std::set<WorkerId> proven_;
  std::optional<Proposal> formed_;
  std::string why_;
  WitnessAnswers witness_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace reigen
