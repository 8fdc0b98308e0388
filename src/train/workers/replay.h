// --replay RUN: workers leave after the steps after which those of RUN were lost, and others are
// added where they had joined. Every step then has the workers by rank, and the shares of the
// batch, that it had in RUN, and the same bits: what a loss changed, and what it did not, can be
// told apart.
//
// For exchanges without lossy compression, and with the same options that a run otherwise measures
// (bucket, compress, threads). A worker that came back in RUN is a new process here, so numbers of
// workers differ after that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "config/train_options.h"
#include "dist/members/job.h"

namespace reigen {

// What changed after a step: numbers of workers, those who joined in the order of their ranks.
struct RecordedChange {
  std::set<uint64_t> gone;
  std::vector<uint64_t> joined;
};

// The changes of a run, by step. Throws ConfigError where they cannot be repeated.
std::map<uint64_t, RecordedChange> recorded_changes(const std::string& run);

class Replay {
 public:
  // Collective. The job must outlive it. Throws ConfigError on rank 0 when --replay names a run
  // whose changes cannot be repeated.
  Replay(Job& job, const TrainOptions& options);

  bool active() const { return !changes_.empty(); }
  // Whether workers leave, or are to be added, after this step; the same on all ranks.
  bool due(uint64_t step) const { return any_leaves(step) || joining(step) > 0; }
  bool any_leaves(uint64_t step) const;
  // Whether this worker is one of those that leave.
  bool leaves(uint64_t step) const;
  // So many workers are to be added, when the others have left.
  size_t joining(uint64_t step) const;
  // On all ranks: the workers with these numbers were added, and learn what is still to come.
  void added(uint64_t step, std::span<const uint64_t> numbers);

 private:
  bool is_gone(uint64_t step, uint64_t number) const;

  Job& job_;
  std::map<uint64_t, RecordedChange> changes_;  // numbers as in the run
  std::map<uint64_t, uint64_t> here_;           // numbers in this job of those that joined the run
};

}  // namespace reigen
