// --replay RUN: workers leave after the steps after which those of RUN were lost. Every step then
// has the workers, and with --shares-of the shares of the batch, that it had in RUN, and the same
// bits: what a loss changed, and what it did not, can be told apart.
//
// For exchanges without lossy compression, and with the same options that a run otherwise measures
// (bucket, compress, threads).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"

namespace reigen {

class Replay {
 public:
  // Collective. The job must outlive it. Throws ConfigError on rank 0 when --replay names no run,
  // or one in which workers were added.
  Replay(Job& job, const TrainOptions& options);

  // Whether present workers leave after this step; the same on all ranks.
  bool due(uint64_t step) const;
  // Whether this worker is one of them.
  bool leaves(uint64_t step) const;

 private:
  Job& job_;
  std::map<uint64_t, std::set<uint64_t>> lost_;  // numbers of workers, by step
};

// The numbers of the workers that a run lost, by the last step before.
std::map<uint64_t, std::set<uint64_t>> recorded_losses(const std::string& run);

}  // namespace reigen
