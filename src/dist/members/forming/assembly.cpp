#include "dist/members/forming/assembly.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/hash.h"

namespace reigen {
namespace {

using Kind = FormingMessage::Kind;

constexpr size_t kFormingIdBytes = 16;

bool is_member(const Proposal& membership, const WorkerId& worker) {
  return std::find(membership.members.begin(), membership.members.end(), worker) !=
         membership.members.end();
}

bool is_present(const std::vector<Asking>& present, const WorkerId& worker) {
  return std::any_of(present.begin(), present.end(),
                     [&](const Asking& one) { return one.worker == worker; });
}

bool is_open(const Proposal& proposal, const MembershipRecord& record) {
  return std::any_of(record.open.begin(), record.open.end(),
                     [&](const Proposal& open) { return open.id == proposal.id; });
}

// Whether a worker with this record may accept it: its epoch is above all that the worker knows.
bool is_newer(const Proposal& proposal, const MembershipRecord& record) {
  return proposal.epoch > record.formed.epoch &&
         std::all_of(record.open.begin(), record.open.end(),
                     [&](const Proposal& open) { return proposal.epoch > open.epoch; });
}

// What a worker could do as rank 0, which has the state and writes the run.
auto claim_of(const Asking& one) { return std::pair(one.has_state, one.writing); }

// The witness that all of them reach; empty if there is none.
std::string common_witness(const std::vector<Asking>& present, const std::vector<Asking>& joiners) {
  const std::string& first = present.front().witness;
  const auto same = [&](const Asking& one) { return one.witness == first; };
  const bool common = std::all_of(present.begin(), present.end(), same) &&
                      std::all_of(joiners.begin(), joiners.end(), same);
  return common ? first : "";
}

// Those who are present, in the order of their ranks but with the best writer first, and then the
// joiners, with an epoch above all that are known.
Proposal next_proposal(const Proposal& base, const std::vector<Asking>& present,
                       const std::vector<EndProof>& ended, const std::vector<Asking>& joiners) {
  Proposal next{.epoch = base.epoch + 1, .id = random_hex(kFormingIdBytes)};
  const auto pass = [&](const MembershipRecord& record) {
    for (const Proposal& open : record.open) next.epoch = std::max(next.epoch, open.epoch + 1);
  };
  for (const Asking& one : present) pass(one.record);
  for (const EndProof& proof : ended) pass(proof.record);
  for (const Asking& one : joiners) pass(one.record);
  std::copy_if(base.members.begin(), base.members.end(), std::back_inserter(next.members),
               [&](const WorkerId& member) { return is_present(present, member); });
  const auto claim = [&](const WorkerId& member) {
    const auto same = [&](const Asking& one) { return one.worker == member; };
    return claim_of(*std::find_if(present.begin(), present.end(), same));
  };
  const auto writer =
      std::max_element(next.members.begin(), next.members.end(),
                       [&](const WorkerId& a, const WorkerId& b) { return claim(a) < claim(b); });
  if (writer != next.members.end()) std::rotate(next.members.begin(), writer, writer + 1);
  next.added = joiners.size();
  next.witness = common_witness(present, joiners);
  for (const Asking& one : joiners) next.members.push_back(one.worker);
  return next;
}

// Of two workers that cannot reach each other only one can stay: the one with fewer such reports,
// then the one that comes first.
void leave_out_unconnected(std::vector<Asking>& present,
                           std::set<std::pair<WorkerId, WorkerId>> apart) {
  while (true) {
    std::vector<size_t> reports(present.size());
    for (size_t i = 0; i < present.size(); ++i) {
      for (size_t j = 0; j < present.size(); ++j) {
        const WorkerId& a = present[i].worker;
        const WorkerId& b = present[j].worker;
        if (apart.contains({a, b}) || apart.contains({b, a})) ++reports[i];
      }
    }
    const auto most = std::max_element(reports.rbegin(), reports.rend());  // the last of them
    if (most == reports.rend() || *most == 0) return;
    present.erase(present.begin() + (reports.rend() - most - 1));
  }
}

}  // namespace

Assembly::Assembly(Asking self, std::vector<EndProof> ended, const Losses& losses,
                   const AssemblyTimes& times, Time now)
    : self_(std::move(self)),
      ended_(std::move(ended)),
      lost_(losses.lost.begin(), losses.lost.end()),
      unreachable_(losses.unreachable.begin(), losses.unreachable.end()),
      times_(times) {
  look(now);
}

std::vector<Assembly::Outgoing> Assembly::take_outgoing() { return std::exchange(outgoing_, {}); }

// A new round: asks all lower ranks of the last membership.
void Assembly::look(Time now) {
  if (state_ == State::kFollowing) send(host_, {.kind = Kind::kLeave});
  state_ = State::kLooking;
  since_ = now;
  answers_.clear();
  for (const WorkerId& member : self_.record.formed.members) {
    if (member == self_.worker) break;
    if (!left_out_.contains(member)) send(member, {.kind = Kind::kAsk});
  }
}

// The lowest rank that may host, once no lower one can still answer.
void Assembly::choose(Time now) {
  for (const WorkerId& member : self_.record.formed.members) {
    if (member == self_.worker) break;
    if (left_out_.contains(member)) continue;
    const auto answer = answers_.find(member);
    if (answer == answers_.end()) {
      if (now - since_ < times_.answer) return;
      continue;
    }
    if (!answer->second) return follow(member, now);
  }
  state_ = State::kHosting;
  since_ = now;
  host_ = self_.worker;
  quorum_since_.reset();
  // Also those that count as lost: they may have continued without this worker, and say so.
  for (const WorkerId& member : self_.record.formed.members) {
    const bool here = member == self_.worker || joined_.contains(member);
    if (!here && !answers_.contains(member)) send(member, {.kind = Kind::kAsk});
  }
}

void Assembly::follow(const WorkerId& host, Time now) {
  for (const auto& [follower, join] : std::exchange(joined_, {})) {
    send(follower, {.kind = Kind::kHere, .follows = host});
  }
  state_ = State::kFollowing;
  since_ = heard_ = now;
  host_ = host;
  join_host();
}

void Assembly::await_proposal_of(const WorkerId& host, Time now) {
  outgoing_.clear();
  state_ = State::kFollowing;
  since_ = heard_ = now;
  host_ = host;
}

void Assembly::join_host() {
  send(host_, {.kind = Kind::kJoin,
               .asking = self_,
               .ended = ended_,
               .lost = {lost_.begin(), lost_.end()},
               .unreachable = {unreachable_.begin(), unreachable_.end()},
               .given_up = {given_up_.begin(), given_up_.end()}});
}

void Assembly::learn(const std::vector<EndProof>& ended, const std::vector<WorkerId>& lost) {
  if (formed_) return;
  ended_.insert(ended_.end(), ended.begin(), ended.end());
  lost_.insert(lost.begin(), lost.end());
  if (state_ != State::kFollowing) return;
  // It looks again at the next tick.
  const auto is_host = [this](const EndProof& proof) { return proof.worker == host_; };
  if (std::any_of(ended.begin(), ended.end(), is_host)) heard_ -= 2 * times_.silence;
  join_host();
}

void Assembly::lose_witness() {
  self_.witness.clear();
  if (!formed_ && state_ == State::kFollowing) join_host();
}

void Assembly::trust_that_others_ended() {
  if (formed_) return;
  std::vector<Proposal> memberships = self_.record.open;
  memberships.push_back(self_.record.formed);
  for (const Proposal& membership : memberships) {
    for (const WorkerId& member : membership.members) {
      if (!is_here(member)) given_up_.insert(member);
    }
  }
  begin_with_all();
  if (state_ == State::kFollowing) join_host();
}

// With the word of the operator a host that had no quorum may have one: no worker avoids it any
// more.
void Assembly::begin_with_all() {
  left_out_.clear();
  if (state_ != State::kHosting) return;
  for (const WorkerId& member : self_.record.formed.members) {
    if (member == self_.worker) break;
    if (connected_.contains(member) && !joined_.contains(member))
      send(member, {.kind = Kind::kAsk});
  }
}

// A connected worker has not ended, also between two rounds, when it has not joined again yet.
bool Assembly::is_here(const WorkerId& worker) const {
  return worker == self_.worker || joined_.contains(worker) || connected_.contains(worker) ||
         (state_ == State::kFollowing && worker == host_);
}

void Assembly::receive(const WorkerId& from, const FormingMessage& message, Time now) {
  if (formed_) return;
  lost_.erase(from);
  unreachable_.erase(from);
  given_up_.erase(from);
  const bool follows = state_ == State::kFollowing;
  switch (message.kind) {
    case Kind::kAsk:
      send(from, {.kind = Kind::kHere, .follows = follows ? std::optional(host_) : std::nullopt});
      // A lower rank may host since it left out the one that it had followed.
      if (state_ == State::kHosting && is_lower(from)) send(from, {.kind = Kind::kAsk});
      return;
    case Kind::kHere:
      return receive_here(from, message, now);
    case Kind::kJoin:
      if (follows) return send(from, {.kind = Kind::kHere, .follows = host_});
      if (!message.given_up.empty() && !was_told_to_continue()) begin_with_all();
      joined_[from] = message;
      return;
    case Kind::kLeave:
      return drop(from, now);
    case Kind::kAccept:
      if (state_ == State::kProposing && message.proposal.id == proposal_.id) accepted_by(from);
      return;
    case Kind::kAborted:
      if (!message.proposal.id.empty()) self_.record.learn_aborted(message.proposal.id);
      [[fallthrough]];
    case Kind::kPropose:
    case Kind::kFormed:
      if (follows && from == host_) receive_as_follower(message, now);
  }
}

void Assembly::receive_here(const WorkerId& from, const FormingMessage& message, Time now) {
  answers_[from] = message.follows;
  if (state_ == State::kFollowing && from == host_) {
    heard_ = now;
    if (message.follows) return look(now);
  }
  // A lower rank noticed the loss late: it is the host, and this worker's followers go there, too.
  if (state_ != State::kHosting || message.follows || !is_lower(from)) return;
  if (!left_out_.contains(from)) follow(from, now);
}

bool Assembly::is_lower(const WorkerId& worker) const {
  const std::vector<WorkerId>& ranks = self_.record.formed.members;
  return std::find(ranks.begin(), ranks.end(), worker) <
         std::find(ranks.begin(), ranks.end(), self_.worker);
}

void Assembly::receive_as_follower(const FormingMessage& message, Time now) {
  heard_ = now;
  const Proposal& proposal = message.proposal;
  if (message.kind == Kind::kPropose) {
    if (!is_newer(proposal, self_.record)) return;
    self_.record.accept(proposal);
    send(host_, {.kind = Kind::kAccept, .proposal = proposal});
  } else if (message.kind == Kind::kFormed) {
    if (!is_open(proposal, self_.record)) return;
    self_.record.learn_formed(proposal);
    formed_ = proposal;
  } else {
    // A host that gave up before it heard the word of the operator is asked again.
    if (message.proposal.id.empty() && given_up_.empty()) left_out_.insert(host_);
    look(now);
  }
}

void Assembly::disconnected(const WorkerId& peer, Time now) {
  if (formed_) return;
  lost_.insert(peer);
  if (state_ == State::kLooking) answers_[peer] = peer;  // cannot host
  if (state_ == State::kFollowing && peer == host_) return look(now);
  drop(peer, now);
}

void Assembly::drop(const WorkerId& follower, Time now) {
  joined_.erase(follower);
  std::erase_if(joiners_, [&](const Asking& one) { return one.worker == follower; });
  if (state_ == State::kProposing && is_member(proposal_, follower)) abort_proposal(now);
}

void Assembly::tick(Time now) {
  if (formed_) return;
  if (state_ == State::kLooking) choose(now);
  if (state_ == State::kFollowing && now - heard_ > times_.silence) look(now);
  if (state_ == State::kHosting) try_to_propose(now);
  if (state_ == State::kHosting && now - said_ > times_.silence / 4) assure_followers(now);
  if (state_ == State::kProposing && now - since_ > times_.silence) {
    for (const WorkerId& member : proposal_.members) {
      if (!accepted_.contains(member)) lost_.insert(member);
    }
    abort_proposal(now);
  }
}

// Followers wait for --silence, which may be shorter than the time for which a host waits.
void Assembly::assure_followers(Time now) {
  said_ = now;
  for (const auto& [follower, join] : joined_) send(follower, {.kind = Kind::kHere});
}

// Those who came and belong to the base, without the ones that cannot reach each other.
std::vector<Asking> Assembly::those_to_propose(std::vector<EndProof>& ended) {
  std::vector<Asking> present = {self_};
  std::set<std::pair<WorkerId, WorkerId>> apart;
  std::set<WorkerId> given_up = given_up_;
  ended = ended_;
  for (const auto& [worker, join] : joined_) {
    present.push_back(join.asking);
    ended.insert(ended.end(), join.ended.begin(), join.ended.end());
    given_up.insert(join.given_up.begin(), join.given_up.end());
    for (const WorkerId& other : join.unreachable) apart.emplace(worker, other);
  }
  for (const WorkerId& worker : given_up) {
    if (!is_here(worker)) ended.push_back({.worker = worker});
  }
  const Proposal base = succession(present, ended).base;
  std::erase_if(present, [&](const Asking& one) { return !is_member(base, one.worker); });
  leave_out_unconnected(present, std::move(apart));
  return present;
}

bool Assembly::was_told_to_continue() const {
  return !given_up_.empty() || std::any_of(joined_.begin(), joined_.end(), [](const auto& join) {
    return !join.second.given_up.empty();
  });
}

// Whether `member`, which this host has not lost, may still join, whatever others report: it has
// answered and follows no host yet, or was asked less than `answer` ago. Where a follower does not
// reach it, that follower may be the one to leave out.
bool Assembly::may_answer(const WorkerId& member, Time now) const {
  const auto answer = answers_.find(member);
  return answer == answers_.end() ? now - since_ < times_.answer : !answer->second;
}

// Whether a member of the base may still come.
bool Assembly::expects_more(const Proposal& base, const std::vector<Asking>& present,
                            Time now) const {
  return std::any_of(base.members.begin(), base.members.end(), [&](const WorkerId& member) {
    if (is_present(present, member) || lost_.contains(member) || joined_.contains(member)) {
      return false;
    }
    if (may_answer(member, now)) return true;
    return std::none_of(joined_.begin(), joined_.end(), [&](const auto& join) {
      const std::vector<WorkerId>& lost = join.second.lost;
      return std::find(lost.begin(), lost.end(), member) != lost.end();
    });
  });
}

// Whether only the word of the witness is missing; then it is asked, once no more workers are
// expected, with which there would be no tie, and no proof that the others have ended.
bool Assembly::waits_for_witness(const std::vector<Asking>& present,
                                 const std::vector<EndProof>& ended, Time now) {
  const Succession hoped = succession(present, ended, witness_.hoped(self_.witness));
  if (!hoped.allowed) return false;
  if (!quorum_since_) quorum_since_ = now;
  const bool alone = !expects_more(hoped.base, present, now);
  if (now - *quorum_since_ < (alone ? times_.answer : times_.gather)) return true;
  witness_.ask(present, ended);
  return now - *quorum_since_ < 2 * times_.gather;
}

void Assembly::try_to_propose(Time now) {
  std::vector<EndProof> ended;
  const std::vector<Asking> present = those_to_propose(ended);
  const Succession result = succession(present, ended, witness_.known());
  why_ = result.why;
  if (!result.allowed) why_ += witness_.why_not();
  // No worker hosts a membership without itself. It is left out if the others formed one without
  // it, as the proof of an ended worker may show, or do not reach it.
  const bool left_out = !is_present(present, self_.worker);
  if (left_out) {
    why_ = is_member(result.base, self_.worker)
               ? "the other workers do not reach this one"
               : format("epoch {} was formed without this worker", result.base.epoch);
  }
  if (!result.allowed && !left_out && waits_for_witness(present, ended, now)) return;
  if (!result.allowed || left_out) {
    quorum_since_.reset();
    // Alone it soon tries a host again that had too few followers: they may have come since.
    const bool in_vain = joined_.empty() && !left_out_.empty();
    if (now - since_ < (in_vain ? times_.answer : times_.gather)) return;
    for (const auto& [follower, join] : std::exchange(joined_, {})) {
      send(follower, {.kind = Kind::kAborted});
    }
    left_out_.clear();
    return look(now);
  }
  if (!quorum_since_) quorum_since_ = now;
  // By the word of the operator a few may continue at once: the others that are connected first get
  // the time to end a round in which they followed a different host.
  const auto patience = was_told_to_continue() ? 3 * times_.gather : times_.gather;
  if (expects_more(result.base, present, now) && now - *quorum_since_ < patience) return;
  proven_.clear();
  for (const EndProof& proof : ended) proven_.insert(proof.worker);
  // A forming never drops and adds: a joiner waits until all that are to stay are there.
  const bool complete = present.size() == result.base.members.size();
  std::erase_if(joiners_, [&](const Asking& one) { return is_member(result.base, one.worker); });
  propose(next_proposal(result.base, present, ended, complete ? joiners_ : std::vector<Asking>{}),
          now);
}

void Assembly::propose(Proposal proposal, Time now) {
  proposal_ = std::move(proposal);
  state_ = State::kProposing;
  since_ = now;
  accepted_.clear();
  self_.record.accept(proposal_);
  for (const WorkerId& member : proposal_.members) {
    if (member != self_.worker) send(member, {.kind = Kind::kPropose, .proposal = proposal_});
  }
  accepted_by(self_.worker);
}

void Assembly::accepted_by(const WorkerId& worker) {
  if (is_member(proposal_, worker)) accepted_.insert(worker);
  if (accepted_.size() < proposal_.members.size()) return;
  self_.record.learn_formed(proposal_);
  formed_ = proposal_;
  for (const WorkerId& member : proposal_.members) {
    if (member != self_.worker) send(member, {.kind = Kind::kFormed, .proposal = proposal_});
  }
}

// It was not declared formed, and now never will be.
void Assembly::abort_proposal(Time now) {
  self_.record.learn_aborted(proposal_.id);
  joiners_.clear();  // one of them may be the reason; they ask again
  for (const WorkerId& member : proposal_.members) {
    joined_.erase(member);
    if (member != self_.worker) send(member, {.kind = Kind::kAborted, .proposal = proposal_});
  }
  look(now);
}

}  // namespace reigen
