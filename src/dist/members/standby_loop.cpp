#include "dist/members/standby_loop.h"

#include <algorithm>
#include <variant>

#include "dist/net/message.h"

namespace reigen {
namespace {

using Kind = FormingMessage::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kIdleTick{1'000};
constexpr milliseconds kFormingTick{5};

std::string name_of(const Member& member) {
  return format("worker {} ({})", member.id.number, member.host);
}

}  // namespace

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

std::string Standby::Loop::missing() const {
  std::string text;
  for (const WorkerId& worker : record_.formed.members) {
    if (worker == self_ || links_.has(worker)) continue;
    const auto member = directory_.find(worker);
    if (member != directory_.end()) text += (text.empty() ? "" : ", ") + name_of(member->second);
  }
  return text;
}

}  // namespace reigen
