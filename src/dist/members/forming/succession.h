// Who may continue when workers are lost: the rule of succession (docs/design/elastic.md).
//
// Pure functions of what workers know. Sets of workers that cannot reach each other may all ask:
// the rule allows at most one of them to form the next membership, whatever was lost, stopped or
// declared formed unheard. tests/protocol/elastic.pml has the same rule, checked with spin.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace reigen {

// One worker process of a job. A process that is started again is a new worker.
struct WorkerId {
  int number = -1;       // lasting, for people
  uint64_t process = 0;  // random
  // NOLINTNEXTLINE(modernize-use-nullptr): in the code that clang makes of the next line
  auto operator<=>(const WorkerId&) const = default;
};

// A proposed membership: formed when all of its members have accepted it, or aborted before by its
// host, which alone can declare it formed.
struct Proposal {
  int64_t epoch = 0;                   // higher than all that its members knew before
  std::string id = {};                 // random
  std::vector<WorkerId> members = {};  // by rank
  // So many of them, the last ones, are added by this proposal. They have no vote on what follows
  // it: whoever has heard nothing of the proposal is bound by its members alone.
  size_t added = 0;
  // Who breaks ties of this membership: the id of a witness (witness.h), or empty for its lowest
  // rank. Whoever accepts the proposal knows it, so that no two halves go by different rules.
  std::string witness = {};
};

// A worker's knowledge of memberships. It records a proposal as open before it accepts it.
struct MembershipRecord {
  Proposal formed = {};                   // the newest that it knows to be formed
  std::vector<Proposal> open = {};        // accepted since; their outcome is not known
  std::vector<std::string> aborted = {};  // ids of proposals that will never be formed

  void accept(const Proposal& proposal) { open.push_back(proposal); }
  void learn_formed(const Proposal& proposal);
  void learn_aborted(const std::string& id);
};

// The word of a launcher or agent that a worker's process has ended, with the worker's last record:
// it may have been in a membership that those who ask have never heard of.
struct EndProof {
  WorkerId worker = {};
  MembershipRecord record = {};
};

// The newest copy of a run that a worker has without its present directory. The newer checkpoint is
// worth more; of copies with the same one, the longer log.
struct RunCopy {
  uint64_t checkpoint = 0;  // step of the last complete one
  uint64_t logged = 0;      // the last step in the log
  // NOLINTNEXTLINE(modernize-use-nullptr): in the code that clang makes of the next line
  auto operator<=>(const RunCopy&) const = default;
};

// The fitness of a worker as the next rank 0, which writes the run directory. In the order of
// worth.
struct WritingClaim {
  bool able = true;             // it has not failed to take the run over
  bool writes = false;          // now
  bool sees_directory = false;  // may take the run directory over
  RunCopy copy = {};            // of those that do not see it
  // NOLINTNEXTLINE(modernize-use-nullptr): in the code that clang makes of the next line
  auto operator<=>(const WritingClaim&) const = default;
};

struct Asking {
  WorkerId worker = {};
  MembershipRecord record = {};
  bool has_state = true;  // false for a worker that has joined but not received the training state
  WritingClaim writing = {};
  std::string witness = {};  // the id of the one that it reaches; empty: none
};

// Whether exactly half of a membership may continue. `left`: its members that are not proven to
// have ended, by rank; `half`: those of them that ask.
using TieBreaker = std::function<bool(const Proposal& membership, std::span<const WorkerId> left,
                                      std::span<const WorkerId> half)>;
// The half with the lowest rank; none of a membership that has a witness.
bool lowest_rank_breaks_tie(const Proposal& membership, std::span<const WorkerId> left,
                            std::span<const WorkerId> half);

// The evidence that a worker is lost or has left.
struct LossReason {
  std::string why;      // "its connection closed", "no heartbeat for 10 s"
  bool proven = false;  // its end was seen by its parent process, or it left in order
  bool left = false;    // in order
};

struct Succession {
  bool allowed = false;
  Proposal base = {};    // the newest formed one that any of them, or of the ended ones, knows
  std::string why = {};  // not allowed: "2 of 5 workers of epoch 3 are here; 3 are needed"
};

// Whether these workers, all of which can reach each other, may form the next membership.
Succession succession(std::span<const Asking> asking, std::span<const EndProof> ended,
                      const TieBreaker& tie_breaker = lowest_rank_breaks_tie);

}  // namespace reigen
