// The step at which the members of a new membership continue, decided from the position of each
// (docs/design/elastic.md). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/members/job.h"

namespace reigen {

// The last step that a worker has committed, and the values that it holds, after a loss.
struct Position {
  bool stateless = false;  // it was added and has nothing of the following yet
  uint64_t committed = 0;  // step
  bool began = false;      // the step after it is under way
  bool reduced = false;    // the reduced gradient of that step is in this worker's memory,
  std::string forming;     // and was reduced in the membership with this id
  // Progress at the boundary after `committed`.
  uint64_t evaluated = 0;    // step of the last evaluation
  uint64_t decay = 0;        // step at which a decay began
  uint64_t checkpoint = 0;   // step of the last checkpoint
  bool unsaved = false;      // something after it is worth a checkpoint
  Job::StopVotes votes;      // of the agreement of `committed`
  std::string state;         // manifest_state() as text,
  std::vector<int> workers;  // the shares in it being those of these workers (WorkerShares)
};

enum class Settled { kKept, kRolledForward, kRepeated };
const char* text_of(Settled settled);  // as in the measurement log

struct Settlement {
  uint64_t step = 0;  // all members continue after it
  Settled settled = Settled::kKept;
  // Of the member that was furthest, which all adopt; nothing where all roll forward, and then
  // agree already.
  std::optional<Position> furthest;
  std::vector<int> stateless;  // ranks that receive the training state after that step
};

// `positions` by rank. Throws CommError when a member lacks a step that others have committed, and
// its gradient, too; this cannot happen as long as each commits only what all have reduced.
Settlement settle(std::span<const Position> positions);

std::string to_text(const Position& position);
Position position_from(const std::string& text);
std::string to_text(const Settlement& settlement);
Settlement settlement_from(const std::string& text);

}  // namespace reigen
