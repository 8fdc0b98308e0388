// Rank 0 of an elastic job writes the run: after a loss it may be a worker that did not before
// (docs/design/elastic.md).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "observe/record/records.h"
#include "train/attempt_parts.h"

namespace reigen {

// Reports to the membership whether this worker writes the run, or could.
void claim_writing(AttemptParts& parts);

// The same, where a second copy of the last checkpoint has arrived on this host. Costs a look at a
// link.
void claim_new_copy(AttemptParts& parts);

// This worker was left out by the others, which write the run without it. What it wrote since is in
// files that nobody reads (take_over.h).
void stop_writing(AttemptParts& parts);

// On all members after the step is settled: rank 0 takes the run over if it is not the writer yet,
// and logs the steps of `recent` that the log lacks. True if the run needs a checkpoint now, also
// if a further worker is lost before: it continues in a different directory, because rank 0 does
// not see the one before, or the writer was lost before `saved`, the step of the last checkpoint,
// was on its disk. Throws WorkerLost, with the group closed, if rank 0 cannot write: the next
// membership has a different one. Where none can, all wait for --checkpoint.wait.
bool change_writer(AttemptParts& parts, const std::deque<StepRecord>& recent,
                   std::optional<uint64_t> saved);

}  // namespace reigen
