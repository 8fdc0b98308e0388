// The standby port of a worker in an elastic job, and the thread that owns it for the life of the
// process (docs/design/elastic.md): it answers at once while the training thread computes.
//
// When a worker of the membership is lost, or another one reports a loss, the thread closes the
// group and forms the next membership with those that it reaches, by the messages of Assembly
// (assembly.h) as JSON over proven links (peer_links.h). The links between host and followers then
// become the control channel, which beats from that moment on; the training thread takes the
// membership when it gets there. Without a sign of that thread for --stall this one is silent, so
// that the others continue without a worker that can only answer.
//
// A worker that the others left out (it was stopped, or cut off) connects to all of them and then
// asks their rank 0 to be added; it waits until they form a membership with it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/members/formed_membership.h"
#include "dist/members/forming/succession.h"
#include "dist/members/member_json.h"

namespace reigen {

struct StandbyOptions {
  std::string token;
  std::string first_forming;  // the id of the job's first forming
  Encryption encryption;
  std::chrono::milliseconds silence{10'000};
  std::chrono::milliseconds stall{0};  // 0: no limit
  // The id of the witness that the parent asks on behalf of this worker; empty: none. Of the first
  // membership it is the tie-breaker.
  std::string witness = {};
  Socket parent = {};  // the pipe to the process that started this one (parent_pipe.h), if any
};

class Standby {
 public:
  // `members`: the first membership, by rank; this worker has `rank`.
  Standby(StandbyOptions options, Socket listener, const std::vector<Member>& members, int rank);
  // A new process that asks to be added to a running job: `self` is without a rank.
  Standby(StandbyOptions options, Socket listener, const Member& self, const Elsewhere& job);
  ~Standby();
  Standby(const Standby&) = delete;
  Standby& operator=(const Standby&) = delete;

  // A worker of membership `forming` is lost or has left; unless it left in order, the next one is
  // formed. Not `certain`: something failed that may have a different cause than this worker. Any
  // thread.
  void notice(const std::string& forming, const Departure& departure, bool certain);
  // `call` runs when the membership after `forming` begins to be formed, on the standby thread, or
  // here if that was earlier. Null unsubscribes and waits for a call in progress.
  void on_forming(const std::string& forming, std::function<void(const CommStatus&)> call);
  // Whether this is the newest membership, and no other is being formed.
  bool stands(const std::string& forming) const;

  // The training thread is alive; so it is when it calls take().
  void note_training();

  // The newest membership that was formed and not taken yet; null if there is none in time.
  std::unique_ptr<FormedMembership> take(std::chrono::milliseconds within);

  // While the next membership is being formed: why the workers here may not continue, and for how
  // long it has been tried. Empty texts: they may, or nothing is being formed.
  struct Waiting {
    std::string why;       // "1 of 3 workers of epoch 0 are here; 2 are needed"
    std::string missing;   // "worker 0 (vm1), worker 1 (vm2)"
    std::string excluded;  // the others continued without this worker, which asks to be added
    std::string over;      // none of those is there any more; nothing more happens
    std::chrono::milliseconds since{0};
  };
  Waiting waiting() const;

  // The operator's word that every worker that is not connected to this one has ended.
  void trust_that_others_ended();

  void set_writing(const WritingClaim& claim);
  // What a new process has to know before it asks to be added. From now on a forming with the same
  // members does not end the job, either.
  void set_welcome(std::string text);
  // Workers that wait at this one, as rank 0, to be added: the next membership has them, too.
  size_t waiting_joiners() const;
  // A worker that was added has the training state from now on.
  void received_state();
  // From now on no loss matters: this worker leaves.
  void leave();
  // The same for a worker that leaves alone, while the others stay. False if this is not the newest
  // membership any more, or another one is being formed, in which this worker has a part.
  bool withdraw(const std::string& forming);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
