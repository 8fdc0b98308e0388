// The thread of a Standby (standby.h): its messages, its part in forming the next membership, and
// how it joins a job that continued without it. Only for the files of the same name.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dist/members/formed_membership.h"
#include "dist/members/forming/assembly.h"
#include "dist/members/member_json.h"
#include "dist/members/parent_pipe.h"
#include "dist/members/peer_links.h"
#include "dist/members/standby.h"

namespace reigen {

class Standby::Loop {
  using Clock = std::chrono::steady_clock;

 public:
  Loop(StandbyOptions options, Socket listener, const std::vector<Member>& members, int rank)
      : Loop(std::move(options), std::move(listener), members.at(static_cast<size_t>(rank))) {
    newest_ = record_.formed.id = options_.first_forming;
    record_.formed.witness = witness_;
    for (const Member& member : members) {
      record_.formed.members.push_back(member.id);
      directory_[member.id] = member;
    }
    parent_.store(self_, record_);
    note_numbers();
    thread_ = thread_without_signals([this] { run(); });
  }

  Loop(StandbyOptions options, Socket listener, const Member& self, const Elsewhere& job)
      : Loop(std::move(options), std::move(listener), self) {
    seeking_.emplace().at = job;
    stateless_ = under_way_ = true;
    began_ = Clock::now();
    waiting_.excluded = "the job trains without this worker";
    thread_ = thread_without_signals([this] { run(); });
  }

  ~Loop() {
    stopping_ = true;
    wake_.wake();
    thread_.join();
    formed_.reset();  // its control channel may call notice()
  }

  // Runs on the thread, soon.
  void post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.wake();
  }

  void notice(const std::string& forming, const Departure& departure, bool certain) {
    post([this, forming, departure, certain] { depart(forming, departure, certain); });
  }

  void on_forming(const std::string& forming, std::function<void(const CommStatus&)> call) {
    std::lock_guard calling(call_mutex_);
    on_forming_ = std::move(call);
    if (on_forming_ && !stands(forming)) on_forming_(CommStatus::closed("a worker was lost"));
  }

  size_t waiting_joiners() const {
    std::lock_guard lock(mutex_);
    return waiting_joiners_;
  }

  void received_state() {
    std::lock_guard lock(mutex_);
    stateless_ = false;
  }

  bool stands(const std::string& forming) const {
    std::lock_guard lock(mutex_);
    return forming == newest_ && !under_way_;
  }

  void note_training() { trained_ = Clock::now().time_since_epoch(); }

  std::unique_ptr<FormedMembership> take(std::chrono::milliseconds within) {
    note_training();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [this] { return formed_ || !waiting_.over.empty(); });
    return std::move(formed_);
  }

  Waiting waiting() const {
    std::lock_guard lock(mutex_);
    Waiting now = waiting_;
    if (under_way_)
      now.since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
    return now;
  }

  void trust_that_others_ended() {
    post([this] {
      if (!assembly_) return;
      assembly_->set_connected(links_.connected());
      assembly_->trust_that_others_ended();
    });
  }

  void set_welcome(std::string text) {
    {
      std::lock_guard lock(mutex_);
      welcome_ = std::move(text);
    }
    post([this] {
      const Member& self = directory_[self_];
      parent_.store_address({self.address, self.standby});
    });
  }

  void set_writing(const WritingClaim& claim) {
    std::lock_guard lock(mutex_);
    writing_ = claim;
  }

  void leave() {
    post([this] {
      left_ = true;
      silent_ = false;
      assembly_.reset();  // the others hear of it on the control channel
    });
  }

  bool withdraw(const std::string& forming) {
    std::promise<bool> done;
    post([&] {
      const bool stands = !assembly_ && !seeking_ && record_.formed.id == forming;
      if (stands) {
        left_ = true;
        parent_.store_left(self_, record_);
        links_.close_all();
      }
      done.set_value(stands);
    });
    return done.get_future().get();
  }

 private:
  static constexpr std::chrono::milliseconds kSeekTick{100};

  // Without a membership and a thread.
  Loop(StandbyOptions options, Socket listener, const Member& self)
      : options_(std::move(options)),
        self_(self.id),
        links_({.self = self_,
                .token = options_.token,
                .first_forming = options_.first_forming,
                .encryption = options_.encryption,
                .silence = options_.silence},
               std::move(listener)),
        parent_(std::move(options_.parent)),
        witness_(options_.witness) {
    record_.formed.id = "none";
    directory_[self_] = self;
  }

  void run();
  void learn(const FromParent& message);
  void learn_end(const ToldEnd& end);
  bool is_to_renounce_witness() const;
  void depart(const std::string& forming, const Departure& departure, bool certain);
  void begin(const CommStatus& why);
  void assemble();
  bool is_training() const {
    const auto since = Clock::now().time_since_epoch() - trained_.load();
    return options_.stall.count() == 0 || since < options_.stall;
  }
  void handle(const PeerLinks::Event& event);
  void handle_ask(const WorkerId& from, const Json& message);
  void welcome(const WorkerId& from);
  void note_numbers();
  void handle_application(const WorkerId& from, const Json& message);
  void handle_forming(const WorkerId& from, const Json& message);
  void learn_members(const Json& proposal);
  bool belongs(const WorkerId& from, const FormingMessage& message, const Json& json) const;
  void advance();
  void send(const Assembly::Outgoing& out);
  std::map<WorkerId, LossReason> reasons_to_leave_out(const Proposal& proposal) const;
  void adopt();
  void exclude(const WorkerId& by, const Json& message);
  void seek();
  Elsewhere here();
  void await_proposal(const WorkerId& from);
  void disconnect(const PeerLinks::Event& event);
  void set_applicants();
  Json ask_message() const;
  std::string missing() const;
  std::string second_proof(const WorkerId& peer, const std::string& id) const {
    return hmac_sha256(options_.token, format("forming {} {}", id, links_.nonces(peer)));
  }

  StandbyOptions options_;
  WorkerId self_;
  PeerLinks links_;
  ParentPipe parent_;
  std::string witness_;  // empty: none, or it is lost
  WakePipe wake_;
  std::atomic<bool> stopping_ = false;
  std::atomic<Clock::duration> trained_ = Clock::now().time_since_epoch();  // last sign of it

  // Of the thread alone.
  MembershipRecord record_;
  std::map<WorkerId, Member> directory_;
  std::optional<Assembly> assembly_;
  std::set<WorkerId> asked_;  // who asked while this worker knew of no loss
  Assembly::Losses losses_;
  std::vector<EndProof> ended_;
  std::map<WorkerId, LossReason> reasons_;
  std::map<WorkerId, LossReason> untaken_reasons_;  // of memberships that were replaced at once
  bool silent_ = false;  // a membership is due, and the training thread gives no sign
  bool left_ = false;
  std::map<WorkerId, Application> applicants_;  // workers that ask this one, as rank 0
  // Of a worker that was left out: the membership that it asks.
  struct Seeking {
    Elsewhere at;
    bool asked = false;
    Clock::time_point next;                         // look at the connections
    std::map<WorkerId, Clock::time_point> refused;  // connections, since then
  };
  std::optional<Seeking> seeking_;
  int next_number_ = 0;  // of a worker that joins

  std::mutex call_mutex_;  // locked during a call, so that unsubscribing waits for it
  std::function<void(const CommStatus&)> on_forming_;

  mutable std::mutex mutex_;  // guards these
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::string newest_;  // the id of the newest membership
  bool under_way_ = false;
  Clock::time_point began_;
  Waiting waiting_;
  WritingClaim writing_;
  std::string welcome_;
  size_t waiting_joiners_ = 0;
  bool stateless_ = false;  // left out, and without the state since
  std::unique_ptr<FormedMembership> formed_;

  std::thread thread_;
};

}  // namespace reigen
