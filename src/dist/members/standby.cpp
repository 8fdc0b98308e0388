#include "dist/members/standby.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dist/members/formed_membership.h"
#include "dist/members/forming/assembly.h"
#include "dist/members/member_json.h"
#include "dist/members/parent_pipe.h"
#include "dist/members/peer_links.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = FormingMessage::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kIdleTick{1'000};
constexpr milliseconds kFormingTick{5};
constexpr milliseconds kSeekTick{100};
// Without any worker that listens for so long, the job that this one was left out of has ended.
constexpr milliseconds kOverAfter{5'000};

std::string name_of(const Member& member) {
  return format("worker {} ({})", member.id.number, member.host);
}

}  // namespace

class Standby::Loop {
 public:
  Loop(StandbyOptions options, Socket listener, const std::vector<Member>& members, int rank)
      : options_(std::move(options)),
        self_(members.at(static_cast<size_t>(rank)).id),
        links_({.self = self_,
                .token = options_.token,
                .first_forming = options_.first_forming,
                .encryption = options_.encryption,
                .silence = options_.silence},
               std::move(listener)),
        parent_(std::move(options_.parent)),
        witness_(options_.witness),
        newest_(options_.first_forming) {
    record_.formed.id = options_.first_forming;
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

  std::unique_ptr<FormedMembership> take(milliseconds within) {
    note_training();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [this] { return formed_ || !waiting_.over.empty(); });
    return std::move(formed_);
  }

  Waiting waiting() const {
    std::lock_guard lock(mutex_);
    Waiting now = waiting_;
    if (under_way_) now.since = std::chrono::duration_cast<milliseconds>(Clock::now() - began_);
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

void Standby::Loop::run() {
  while (!stopping_) {
    std::deque<std::function<void()>> tasks;
    {
      std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    if (silent_ && is_training()) assemble();
    if (is_to_renounce_witness()) {
      begin(CommStatus::closed("the launcher, which is the witness of this job, is lost"));
    }
    if (seeking_) seek();
    if (assembly_) advance();
    const bool forms = assembly_ || silent_;
    const milliseconds tick = forms ? kFormingTick : seeking_ ? kSeekTick : kIdleTick;
    links_.poll(tick, {wake_.fd(), parent_.fd()});
    wake_.drain();
    while (const auto message = parent_.next()) learn(*message);
    while (const auto event = links_.next_event()) {
      handle(*event);
      if (assembly_) advance();
    }
  }
}

void Standby::Loop::depart(const std::string& forming, const Departure& departure, bool certain) {
  if (left_ || seeking_ || forming != record_.formed.id) return;  // of an earlier membership
  const CommStatus& status = departure.status;
  const auto at = static_cast<size_t>(status.rank);
  const bool known = status.rank >= 0 && at < record_.formed.members.size();
  const WorkerId worker = known ? record_.formed.members[at] : self_;
  if (status.ok()) {
    if (!known) return;
    // Its word that it ended, so it takes part in nothing any more.
    reasons_[worker] = {.why = "it left", .proven = true, .left = true};
    ended_.push_back({.worker = worker, .record = {.formed = record_.formed}});
    losses_.lost.push_back(worker);
    if (assembly_) assembly_->learn({ended_.back()}, {worker});
    return;
  }
  const bool other = certain && worker != self_;
  if (other) reasons_.try_emplace(worker, LossReason{status.detail, false});
  // A worker that is linked forms: it closed only the old control channel.
  if (other && !links_.has(worker)) {
    losses_.lost.push_back(worker);
    if (departure.unreachable) losses_.unreachable.push_back(worker);
    if (assembly_) assembly_->learn({}, {worker});
  }
  if (!assembly_ && !silent_) begin(status);
}

void Standby::Loop::learn(const FromParent& message) {
  if (const auto* end = std::get_if<ToldEnd>(&message)) return learn_end(*end);
  if (const auto* answer = std::get_if<WitnessAnswer>(&message)) {
    if (assembly_) assembly_->learn_answer(answer->tie, answer->granted);
    return;
  }
  witness_.clear();
  if (assembly_) assembly_->lose_witness();
}

// Without its witness this membership is at a loss when half of it is lost. While all of them are
// there, the workers form the next one, of which the lowest rank breaks ties.
bool Standby::Loop::is_to_renounce_witness() const {
  const Proposal& formed = record_.formed;
  if (formed.witness.empty() || formed.witness == witness_ || formed.members.size() < 2) {
    return false;
  }
  if (assembly_ || silent_ || seeking_ || left_) return false;
  std::lock_guard lock(mutex_);
  return !welcome_.empty();
}

// Its parent has seen it end: it takes part in nothing any more.
void Standby::Loop::learn_end(const ToldEnd& end) {
  const WorkerId& worker = end.proof.worker;
  if (left_ || seeking_ || worker == self_) return;
  if (!reasons_[worker].left) reasons_[worker] = {.why = end.why, .proven = true};
  ended_.push_back(end.proof);
  if (assembly_) return assembly_->learn({end.proof}, {worker});
  const auto& members = record_.formed.members;
  if (std::find(members.begin(), members.end(), worker) == members.end()) return;
  losses_.lost.push_back(worker);
  if (!silent_) begin(CommStatus::closed(format("{} {}", name_of(directory_[worker]), end.why)));
}

// The old group ends before this worker sends anything to the others: nothing that it does from now
// on helps any worker to commit a step in the old membership.
void Standby::Loop::begin(const CommStatus& why) {
  std::unique_ptr<FormedMembership> untaken;
  {
    std::lock_guard lock(mutex_);
    under_way_ = true;
    began_ = Clock::now();
    untaken = std::move(formed_);
  }
  if (untaken) untaken_reasons_.merge(untaken->reasons);
  untaken.reset();  // without the lock: its thread may be in notice()
  {
    std::lock_guard calling(call_mutex_);
    if (on_forming_) on_forming_(why);
  }
  silent_ = !is_training();
  if (!silent_) assemble();
}

void Standby::Loop::assemble() {
  silent_ = false;
  Asking self{.worker = self_, .record = record_, .witness = witness_};
  {
    std::lock_guard lock(mutex_);
    self.writing = writing_;
    self.has_state = !stateless_;
  }
  AssemblyTimes times;
  times.silence = options_.silence;
  assembly_.emplace(self, ended_, losses_, times, Clock::now());
  set_applicants();
  for (const WorkerId& worker : std::exchange(asked_, {})) {
    assembly_->receive(worker, {.kind = Kind::kAsk}, Clock::now());
  }
}

void Standby::Loop::handle(const PeerLinks::Event& event) {
  if (left_) return;
  if (!event.message) return disconnect(event);
  const Json& message = *event.message;
  const std::string kind = text_field(message, "kind").value_or("");
  if (seeking_) {
    seeking_->refused.erase(event.from);
    if (kind == "elsewhere") return exclude(event.from, message);
    if (kind == "propose") await_proposal(event.from);
    if (assembly_) handle_forming(event.from, message);
  } else if (kind == "apply") {
    handle_application(event.from, message);
  } else if (kind == "elsewhere" && (assembly_ || silent_)) {
    exclude(event.from, message);
  } else if (assembly_) {
    handle_forming(event.from, message);
  } else if (kind == "ask") {
    handle_ask(event.from, message);
  } else if (kind == "question") {
    welcome(event.from);
  }
}

void Standby::Loop::note_numbers() {
  for (const WorkerId& member : record_.formed.members) {
    next_number_ = std::max(next_number_, member.number + 1);
  }
}

// A new process, which may take minutes to open its data before it asks to be added.
void Standby::Loop::welcome(const WorkerId& from) {
  Welcome answer{.at = here()};
  if (record_.formed.members.front() == self_) answer.number = next_number_++;
  {
    std::lock_guard lock(mutex_);
    answer.text = welcome_;
  }
  links_.send(from, json_of(answer));
}

Elsewhere Standby::Loop::here() {
  Elsewhere here{.epoch = record_.formed.epoch, .id = record_.formed.id};
  for (const WorkerId& worker : record_.formed.members) here.members.push_back(directory_[worker]);
  return here;
}

void Standby::Loop::disconnect(const PeerLinks::Event& event) {
  const WorkerId& from = event.from;
  asked_.erase(from);
  if (applicants_.erase(from) > 0) set_applicants();
  if (seeking_) {
    if (event.refused) seeking_->refused.try_emplace(from, Clock::now());
    if (from == seeking_->at.members.front().id) seeking_->asked = false;
  }
  if (assembly_) assembly_->disconnected(from, Clock::now());
}

// Another worker lost a member. A worker that is not in this membership any more is notified of
// that.
void Standby::Loop::handle_ask(const WorkerId& from, const Json& message) {
  const Proposal& formed = record_.formed;
  const bool member =
      std::find(formed.members.begin(), formed.members.end(), from) != formed.members.end();
  const int64_t epoch = number_field(message, "epoch").value_or(0);
  if (!member) {
    if (epoch <= formed.epoch) links_.send(from, json_of(here()));
    return;
  }
  asked_.insert(from);
  if (silent_) return;
  if (text_field(message, "id") != formed.id) return;  // an old question, or it will ask again
  begin(CommStatus::closed(format("{} lost a worker", name_of(directory_[from]))));
}

// A worker that was left out, and now reaches all members. One that asks in vain asks again.
void Standby::Loop::handle_application(const WorkerId& from, const Json& message) {
  const auto application = application_in(message);
  const std::vector<WorkerId>& members = record_.formed.members;
  if (!application || application->member.id != from || application->id != record_.formed.id ||
      std::find(members.begin(), members.end(), from) != members.end()) {
    return;
  }
  applicants_[from] = *application;
  set_applicants();
}

void Standby::Loop::set_applicants() {
  if (assembly_) {
    std::vector<Asking> joiners;
    for (const auto& [worker, application] : applicants_) {
      joiners.push_back({.worker = worker,
                         .record = application.record,
                         .has_state = false,
                         .writing = {.able = false},
                         .witness = application.witness});
    }
    assembly_->set_joiners(std::move(joiners));
  }
  std::lock_guard lock(mutex_);
  waiting_joiners_ = applicants_.size();
}

// `accept` and `formed` carry a proof that belongs to this forming and this link.
bool Standby::Loop::belongs(const WorkerId& from, const FormingMessage& message,
                            const Json& json) const {
  if (message.kind != Kind::kAccept && message.kind != Kind::kFormed) return true;
  return same_secret(text_field(json, "proof").value_or(""),
                     second_proof(from, message.proposal.id));
}

void Standby::Loop::handle_forming(const WorkerId& from, const Json& json) {
  const auto message = forming_message_in(json);
  if (!message || !belongs(from, *message, json)) return;
  if (message->kind == Kind::kPropose) learn_members(json);
  for (const WorkerId& member : message->proposal.members) {
    if (!directory_.contains(member)) return;
  }
  assembly_->receive(from, *message, Clock::now());
}

void Standby::Loop::learn_members(const Json& proposal) {
  for (const Json& entry : proposal.value("details", Json::array())) {
    if (const auto member = member_in(entry)) directory_[member->id] = *member;
  }
  for (const auto& [worker, reason] : reasons_in(proposal.value("lost", Json::array()))) {
    reasons_[worker] = reason;
  }
}

void Standby::Loop::advance() {
  assembly_->set_connected(links_.connected());
  assembly_->tick(Clock::now());
  record_ = assembly_->record();
  parent_.store(self_, record_);
  if (seeking_ && !assembly_->formed() && !assembly_->follows()) {  // nothing came of the proposal
    assembly_.reset();
    seeking_->asked = false;
    return;
  }
  for (const Tie& tie : assembly_->take_questions()) parent_.ask(tie);
  for (const Assembly::Outgoing& out : assembly_->take_outgoing()) send(out);
  if (assembly_->formed()) return adopt();
  const std::string lacking = assembly_->why_waiting().empty() ? "" : missing();
  std::lock_guard lock(mutex_);
  waiting_.why = assembly_->why_waiting();
  waiting_.missing = lacking;
}

void Standby::Loop::send(const Assembly::Outgoing& out) {
  Json message = json_of(out.message);
  const Proposal& proposal = out.message.proposal;
  switch (out.message.kind) {
    case Kind::kAsk: {
      message = ask_message();
      const Member& peer = directory_[out.to];
      links_.dial(out.to, {peer.address, peer.standby});
      break;
    }
    case Kind::kPropose:
      message["details"] = Json::array();
      for (const WorkerId& member : proposal.members) {
        const auto applicant = applicants_.find(member);
        if (applicant != applicants_.end()) directory_[member] = applicant->second.member;
        message["details"].push_back(json_of(directory_[member]));
      }
      message["lost"] = json_of(reasons_to_leave_out(proposal));
      break;
    case Kind::kAccept:
    case Kind::kFormed:
      message["proof"] = second_proof(out.to, proposal.id);
      break;
    default:
      break;
  }
  links_.send(out.to, message);
}

Json Standby::Loop::ask_message() const {
  Json message = json_of(FormingMessage{.kind = Kind::kAsk});
  message["id"] = record_.formed.id;
  message["epoch"] = record_.formed.epoch;
  return message;
}

std::map<WorkerId, LossReason> Standby::Loop::reasons_to_leave_out(const Proposal& proposal) const {
  std::map<WorkerId, LossReason> reasons;
  for (const auto& [worker, member] : directory_) {
    const auto& members = proposal.members;
    if (std::find(members.begin(), members.end(), worker) != members.end()) continue;
    const auto known = reasons_.find(worker);
    LossReason reason = known == reasons_.end() ? LossReason{"no answer"} : known->second;
    reason.proven = reason.proven || assembly_->proven().contains(worker);
    reasons[worker] = reason;
  }
  return reasons;
}

void Standby::Loop::adopt() {
  auto formed = std::make_unique<FormedMembership>();
  const Proposal& proposal = *assembly_->formed();
  formed->epoch = proposal.epoch;
  formed->id = proposal.id;
  formed->witness = proposal.witness;
  for (const WorkerId& worker : proposal.members) {
    Member& member = formed->members.emplace_back(directory_[worker]);
    member.rank = static_cast<int>(formed->members.size()) - 1;
    if (worker == self_) formed->rank = member.rank;
  }
  formed->reasons =
      assembly_->host() == self_ ? reasons_to_leave_out(proposal) : std::exchange(reasons_, {});
  formed->reasons.merge(std::exchange(untaken_reasons_, {}));
  connect_control(*formed, links_, assembly_->host(), options_.silence);
  formed->control->on_departure(
      [this, id = formed->id](const Departure& departure) { notice(id, departure, true); });
  assembly_.reset();
  seeking_.reset();
  applicants_.clear();
  losses_ = {};
  std::erase_if(ended_, [&](const EndProof& proof) {
    return std::none_of(formed->members.begin(), formed->members.end(),
                        [&](const Member& member) { return member.id == proof.worker; });
  });
  reasons_.clear();
  directory_.clear();
  for (const Member& member : formed->members) directory_[member.id] = member;
  note_numbers();
  links_.close_all();
  std::lock_guard lock(mutex_);
  newest_ = formed->id;
  under_way_ = false;
  waiting_joiners_ = 0;
  formed->left_out = std::exchange(waiting_, {}).excluded;
  formed->stateless = stateless_;
  formed->has_added = record_.formed.added > 0;
  formed_ = std::move(formed);
  changed_.notify_all();
}

// The others continued without this worker: what it knows helps nobody to form a membership.
void Standby::Loop::exclude(const WorkerId& by, const Json& message) {
  const auto at = elsewhere_in(message);
  const int64_t known = seeking_ ? seeking_->at.epoch : record_.formed.epoch;
  if (!at || at->epoch <= known || (seeking_ && assembly_)) return;
  assembly_.reset();
  silent_ = false;
  applicants_.clear();
  seeking_.emplace().at = *at;
  std::lock_guard lock(mutex_);
  stateless_ = true;
  waiting_joiners_ = 0;
  waiting_ = {};
  waiting_.excluded =
      format("the other workers continued in epoch {} without this worker, as worker {} reports",
             at->epoch, by.number);
  changed_.notify_all();
}

// Looks whether all members of the other membership can be reached, before it asks to be added: a
// forming with a worker that one of them does not reach would be in vain.
void Standby::Loop::seek() {
  const auto now = Clock::now();
  if (assembly_ || now < seeking_->next || !is_training()) return;
  seeking_->next = now + kSeekTick;
  const Elsewhere& at = seeking_->at;
  bool all = true;
  bool over = true;
  for (const Member& member : at.members) {
    links_.dial(member.id, {member.address, member.standby});
    const auto refused = seeking_->refused.find(member.id);
    over = over && refused != seeking_->refused.end() && now - refused->second > kOverAfter;
    if (!links_.has(member.id)) {
      all = false;
      continue;
    }
    links_.send(member.id, ask_message());  // is this still the membership?
  }
  if (all && !std::exchange(seeking_->asked, true)) {
    const Application application{at.id, directory_[self_], record_, witness_};
    links_.send(at.members.front().id, json_of(application));
  }
  if (!over) return;
  std::lock_guard lock(mutex_);
  waiting_.over = waiting_.excluded + ", and have ended since";
  changed_.notify_all();
}

void Standby::Loop::await_proposal(const WorkerId& from) {
  if (assembly_ || from != seeking_->at.members.front().id) return;
  AssemblyTimes times;
  times.silence = options_.silence;
  const Asking self{.worker = self_, .record = record_, .has_state = false};
  assembly_.emplace(self, std::vector<EndProof>{}, Assembly::Losses{}, times, Clock::now());
  assembly_->await_proposal_of(from, Clock::now());
}

std::string Standby::Loop::missing() const {
  std::string text;
  for (const WorkerId& worker : record_.formed.members) {
    if (worker == self_ || links_.has(worker)) continue;
    const auto member = directory_.find(worker);
    if (member != directory_.end()) text += (text.empty() ? "" : ", ") + name_of(member->second);
  }
  return text;
}

Standby::Standby(StandbyOptions options, Socket listener, const std::vector<Member>& members,
                 int rank)
    : loop_(std::make_unique<Loop>(std::move(options), std::move(listener), members, rank)) {}
Standby::Standby(StandbyOptions options, Socket listener, const Member& self, const Elsewhere& job)
    : loop_(std::make_unique<Loop>(std::move(options), std::move(listener), self, job)) {}
Standby::~Standby() = default;

void Standby::notice(const std::string& forming, const Departure& departure, bool certain) {
  loop_->notice(forming, departure, certain);
}

void Standby::on_forming(const std::string& forming, std::function<void(const CommStatus&)> call) {
  loop_->on_forming(forming, std::move(call));
}

void Standby::note_training() { loop_->note_training(); }

bool Standby::stands(const std::string& forming) const { return loop_->stands(forming); }

std::unique_ptr<FormedMembership> Standby::take(milliseconds within) { return loop_->take(within); }

Standby::Waiting Standby::waiting() const { return loop_->waiting(); }
void Standby::set_welcome(std::string text) { loop_->set_welcome(std::move(text)); }
size_t Standby::waiting_joiners() const { return loop_->waiting_joiners(); }
void Standby::received_state() { loop_->received_state(); }
void Standby::trust_that_others_ended() { loop_->trust_that_others_ended(); }
void Standby::set_writing(const WritingClaim& claim) { loop_->set_writing(claim); }
void Standby::leave() { loop_->leave(); }
bool Standby::withdraw(const std::string& forming) { return loop_->withdraw(forming); }

}  // namespace reigen
