#include "dist/members/forming/succession.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/format.h"

namespace reigen {
namespace {

using Workers = std::vector<WorkerId>;

bool contains(std::span<const WorkerId> workers, const WorkerId& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

Workers without(std::span<const WorkerId> workers, const Workers& gone) {
  Workers left;
  std::ranges::copy_if(workers, std::back_inserter(left),
                       [&](const WorkerId& worker) { return !contains(gone, worker); });
  return left;
}

// The joint knowledge of the workers that ask, and of the ended ones by their proofs.
struct Knowledge {
  Proposal base;
  std::vector<Proposal> open;  // newer than the base, not aborted
};

Knowledge knowledge_of(std::span<const Asking> asking, std::span<const EndProof> ended) {
  std::vector<const MembershipRecord*> records;
  for (const Asking& one : asking) records.push_back(&one.record);
  for (const EndProof& proof : ended) records.push_back(&proof.record);
  Knowledge known;
  std::set<std::string> closed;
  for (const MembershipRecord* record : records) {
    if (record == records.front() || record->formed.epoch > known.base.epoch) {
      known.base = record->formed;
    }
    closed.insert(record->aborted.begin(), record->aborted.end());
  }
  for (const MembershipRecord* record : records) {
    for (const Proposal& proposal : record->open) {
      if (proposal.epoch <= known.base.epoch || !closed.insert(proposal.id).second) continue;
      known.open.push_back(proposal);
    }
  }
  return known;
}

// Empty where those who ask are more than half of the members that are left, or half of them and
// the tie-breaker agrees; otherwise the reason.
std::string lacks_quorum(const Proposal& membership, const Workers& present, const Workers& gone,
                         const TieBreaker& tie_breaker) {
  const std::span<const WorkerId> members = membership.members;
  Workers left = without(members.first(members.size() - membership.added), gone);
  if (left.empty()) left = without(members, gone);
  Workers here;
  std::ranges::copy_if(left, std::back_inserter(here),
                       [&](const WorkerId& worker) { return contains(present, worker); });
  if (2 * here.size() > left.size()) return "";
  const bool tie = 2 * here.size() == left.size() && !here.empty();
  if (tie && tie_breaker(membership, left, here)) return "";
  const char* half = membership.witness.empty() ? ", or half of them with its lowest rank"
                                                : ", or half of them with the word of the witness";
  return format("{} of {} workers of epoch {} are here; {} are needed{}", here.size(), left.size(),
                membership.epoch, left.size() / 2 + 1, tie ? half : "");
}

}  // namespace

void MembershipRecord::learn_formed(const Proposal& proposal) {
  if (proposal.epoch <= formed.epoch) return;
  formed = proposal;
  std::erase_if(open, [&](const Proposal& other) { return other.epoch <= proposal.epoch; });
}

void MembershipRecord::learn_aborted(const std::string& id) {
  std::erase_if(open, [&](const Proposal& other) { return other.id == id; });
  if (std::find(aborted.begin(), aborted.end(), id) != aborted.end()) return;
  aborted.push_back(id);
  // Records travel. A forgotten entry can only keep workers waiting that have not heard of it.
  constexpr size_t kMostKept = 64;
  if (aborted.size() > kMostKept) aborted.erase(aborted.begin());
}

bool lowest_rank_breaks_tie(const Proposal& membership, std::span<const WorkerId> left,
                            std::span<const WorkerId> half) {
  return membership.witness.empty() && contains(half, left.front());
}

Succession succession(std::span<const Asking> asking, std::span<const EndProof> ended,
                      const TieBreaker& tie_breaker) {
  if (asking.empty()) return {.why = "no worker is here"};
  Knowledge known = knowledge_of(asking, ended);
  Workers present;
  Workers gone;
  for (const Asking& one : asking) present.push_back(one.worker);
  for (const EndProof& proof : ended) gone.push_back(proof.worker);
  Succession result{.base = known.base};
  const auto stranger = std::find_if(present.begin(), present.end(), [&](const WorkerId& worker) {
    return !contains(known.base.members, worker);
  });
  if (stranger != present.end()) {
    result.why = format("worker {} is not in epoch {} and has to join it", stranger->number,
                        known.base.epoch);
    return result;
  }
  if (std::none_of(asking.begin(), asking.end(), [](const Asking& a) { return a.has_state; })) {
    result.why = "no worker with the training state is here";
    return result;
  }
  result.why = lacks_quorum(known.base, present, gone, tie_breaker);
  for (const Proposal& proposal : known.open) {
    if (result.why.empty()) result.why = lacks_quorum(proposal, present, gone, tie_breaker);
  }
  result.allowed = result.why.empty();
  return result;
}

}  // namespace reigen
