#include "dist/members/forming/witness.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace reigen {

Tie tie_of(const Proposal& membership, std::span<const WorkerId> half) {
  Tie tie{membership.id, {half.begin(), half.end()}};
  std::sort(tie.half.begin(), tie.half.end());
  return tie;
}

std::string new_witness_id() {
  constexpr size_t kBytes = 8;
  return random_hex(kBytes);
}

bool Witness::grants(const Tie& tie) {
  return granted_.try_emplace(tie.membership, tie.half).first->second == tie.half;
}

TieBreaker WitnessAnswers::known() {
  why_not_.clear();
  return [this](const Proposal& membership, std::span<const WorkerId> left,
                std::span<const WorkerId> half) {
    why_not_.clear();
    if (membership.witness.empty()) return lowest_rank_breaks_tie(membership, left, half);
    const auto answer = answers_.find(tie_of(membership, half));
    const bool answered = answer != answers_.end() && answer->second;
    if (answered && *answer->second) return true;
    why_not_ = answered ? ", which the others have" : ", which does not answer";
    return false;
  };
}

TieBreaker WitnessAnswers::hoped(const std::string& reachable) const {
  return [this, reachable](const Proposal& membership, std::span<const WorkerId> left,
                           std::span<const WorkerId> half) {
    if (membership.witness.empty()) return lowest_rank_breaks_tie(membership, left, half);
    const auto answer = answers_.find(tie_of(membership, half));
    if (answer != answers_.end() && answer->second) return *answer->second;
    return membership.witness == reachable;
  };
}

void WitnessAnswers::ask(std::span<const Asking> asking, std::span<const EndProof> ended) {
  succession(asking, ended,
             [this](const Proposal& membership, std::span<const WorkerId> left,
                    std::span<const WorkerId> half) {
               if (membership.witness.empty()) {
                 return lowest_rank_breaks_tie(membership, left, half);
               }
               const Tie tie = tie_of(membership, half);
               if (answers_.try_emplace(tie).second) questions_.push_back(tie);
               return true;
             });
}

std::vector<Tie> WitnessAnswers::take_questions() { return std::exchange(questions_, {}); }

}  // namespace reigen
