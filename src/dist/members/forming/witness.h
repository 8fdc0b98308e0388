// The witness of a job: somebody beside the workers who breaks ties (docs/design/elastic.md).
//
// Exactly half of a membership may continue if the witness grants it. There is one granted half for
// each membership, so that the other half never continues, whenever it asks. Where the witness is
// lost it is never replaced for a membership that has it: the workers form the next one without.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/members/forming/succession.h"

namespace reigen {

// Half of the workers of a membership that are left, and ask.
struct Tie {
  std::string membership;      // the id of its forming
  std::vector<WorkerId> half;  // in ascending order
  // NOLINTNEXTLINE(modernize-use-nullptr): in the code that clang makes of the next line
  auto operator<=>(const Tie&) const = default;
};

// Of a witness that has granted nothing yet.
std::string new_witness_id();

Tie tie_of(const Proposal& membership, std::span<const WorkerId> half);

class Witness {
 public:
  // Yes to the first half of a membership that asks, and to the same half again.
  bool grants(const Tie& tie);

 private:
  std::map<std::string, std::vector<WorkerId>> granted_;  // by membership
};

// A worker's questions to its witness and the answers, which are valid for ever.
class WitnessAnswers {
 public:
  // For succession(). A tie without an answer is not broken.
  TieBreaker known();
  // The same if the witness `reachable` said yes to each question that it has not answered.
  TieBreaker hoped(const std::string& reachable) const;
  // Why known() did not break the last tie that it was asked for, as the end of a sentence about
  // the witness; empty where the lowest rank decides.
  const std::string& why_not() const { return why_not_; }

  // Asks about all ties of these workers that it has not asked about.
  void ask(std::span<const Asking> asking, std::span<const EndProof> ended);
  std::vector<Tie> take_questions();
  void learn(const Tie& tie, bool granted) { answers_[tie] = granted; }

 private:
  std::map<Tie, std::optional<bool>> answers_;  // nothing: asked
  std::vector<Tie> questions_;
  std::string why_not_;
};

}  // namespace reigen
