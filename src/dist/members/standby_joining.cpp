// How workers join a running job: rank 0 answers new processes and takes applications; a worker
// that was left out looks for the others, and asks to be added.
#include <algorithm>

#include "dist/members/standby_loop.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

// Without any worker that listens for so long, the job that this one was left out of has ended.
constexpr std::chrono::milliseconds kOverAfter{5'000};

}  // namespace

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

// The others continued without this worker, which now asks them to be added.
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

}  // namespace reigen
