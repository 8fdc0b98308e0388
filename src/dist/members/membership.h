// Start here: a worker's membership in its job. It joins the rendezvous, forms the group, and names
// the worker that was lost.
//
// The group notices broken connections, often to a worker that only stopped because of the loss;
// the control channel (control_channel.h) knows which worker was lost first. A membership closes
// the group as soon as either notices. In an elastic job the survivors of a loss form the next
// membership, which this object then is (standby.h).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dist/group/group.h"
#include "dist/members/control_channel.h"
#include "dist/members/interface.h"
#include "dist/members/rendezvous_server.h"
#include "dist/members/standby.h"

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
  // For one message between workers, and for a sign of a worker's training thread; 0 for none.
  std::chrono::milliseconds timeout{0};
  std::string witness;   // the id of the one that the parent asks (members/forming/witness.h)
  Socket parent;         // the pipe to the process that started this one, if that reads records
  bool elastic = false;  // survivors of a loss form the next membership
  // A worker that may not continue without the others waits for so long; 0 for ever.
  std::chrono::milliseconds pause_limit{3'600'000};
};

// A running job, as a process learns of it that is to be added (join_question.h).
struct JobToJoin {
  Elsewhere at;
  std::string first_forming;
  int number = 0;  // of the worker that this process becomes
};

// How a membership followed the one before.
struct MembershipChange {
  struct Lost {
    Member member;  // as in the membership before
    LossReason reason;
  };
  std::vector<Lost> lost;
  std::vector<Member> joined;
  double seconds = 0;  // from the call of form_next() until the group was formed
  double paused = 0;   // of these, while the workers here were not allowed to continue
};

class Membership {
 public:
  // Returns when the group is formed. Throws CommError, or ConfigError for a wrong interface.
  explicit Membership(MembershipOptions options);
  // A new process joins a running job: returns when it was added, without the training state.
  Membership(MembershipOptions options, const JobToJoin& job);
  ~Membership();  // without leave() the others count this worker as lost
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // For the training thread: using it is a sign of life.
  Group& group() {
    if (standby_) standby_->note_training();
    return *group_;
  }
  const Group& group() const { return *group_; }
  ControlChannel& control() { return *control_; }
  const ControlChannel& control() const { return *control_; }
  bool elastic() const { return options_.elastic; }
  const std::vector<Member>& members() const { return members_; }  // by rank
  const Member& self() const { return members_[static_cast<size_t>(control_->rank())]; }
  const std::string& forming_id() const { return control_->forming_id(); }
  int64_t epoch() const { return group_->epoch(); }
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

  // Ends the membership in order: all workers call it after the same last operation. In an elastic
  // job a worker that is lost meanwhile is no error: the work is done.
  CommStatus leave();

  // Before this worker leaves alone: from now on it takes part in no forming. False if one has
  // begun already: nothing has happened, and form_next() is next.
  bool withdraw();
  // Then, when nobody needs it any more, with so many workers that leave at once; the others call
  // form_next().
  void leave_alone(int leaving = 1);
  // The others, before form_next(): the worker withdrew before an operation that all have passed.
  void note_left(int rank);
  // Whether this membership added workers, which have no vote on the next one.
  bool has_added() const { return has_added_; }

  // In an elastic job, after any operation has failed, or on all workers after the same operation,
  // to add those that wait: closes the group, and returns when this worker is in the next
  // membership and its group is formed. Old groups stay, closed, until
  // forget_old_groups(): objects may still refer to them. Waits while the workers that
  // are here may not continue, and logs why; where the others continued without this worker, until
  // they have added it again. Throws CommError after the pause limit, or if the others have ended
  // meanwhile; Interrupted after a signal during a pause.
  MembershipChange form_next(const CommStatus& noticed);
  void forget_old_groups() { old_groups_.clear(); }
  // From now on form_next() throws CommError at once instead of waiting.
  void need_no_others() { needs_others_ = false; }
  // To be reported whenever it changes; any thread.
  void set_writing(const WritingClaim& claim);
  // On rank 0: whether workers wait to be added.
  bool joiners_wait() const { return waiting_joiners() > 0; }
  size_t waiting_joiners() const { return standby_ ? standby_->waiting_joiners() : 0; }
  // False on a worker that was added, until it has received the training state.
  bool has_state() const { return has_state_; }
  void received_state();
  // Text for a new process that asks about the job, and where such a process finds this one.
  void set_welcome(std::string text);
  Endpoint standby_at() const { return {self().address, self().standby}; }

 private:
  void choose_interface();
  void join();
  void open_listeners();
  void open_standby();
  std::unique_ptr<Group> make_group();
  void watch_losses();
  std::unique_ptr<FormedMembership> next_membership(MembershipChange& change);
  std::map<WorkerId, LossReason> await_next(MembershipChange& change);
  bool adopt(std::unique_ptr<FormedMembership> next);
  std::string tie_note() const;
  void warn_of_pause(const Standby::Waiting& waiting) const;
  // Throws CommError if another worker has ended.
  void check_others() const;

  MembershipOptions options_;
  NetworkInterface interface_;
  std::string interface_note_;
  Encryption encryption_;
  std::vector<Member> members_;
  bool has_state_ = true;
  bool has_added_ = false;
  std::string witness_;  // who breaks ties; empty: the lowest rank
  Socket listener_;      // for data, also of the next membership
  Socket standby_listener_;
  int encrypted_peers_ = 0;
  bool needs_others_ = true;
  std::set<WorkerId> left_;           // of note_left()
  std::unique_ptr<Standby> standby_;  // null in a job that is not elastic
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<ControlChannel> control_;
  std::vector<std::unique_ptr<Group>> old_groups_;
  std::unique_ptr<Group> group_;
};

}  // namespace reigen
