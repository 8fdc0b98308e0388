// --shares: how much of each batch a worker gets.
//
// Equal shares are the default: then time decides nothing. Measured shares follow the speed of each
// worker; rank 0 chooses new ones every kEvery steps if a step gets clearly shorter, and the same
// step on all ranks is the first with them. Dropout is keyed by the token in the batch, so a change
// of shares changes rounding only. Every change is recorded in the log, and the present shares in
// each checkpoint; --shares-of repeats the changes of a run, and so its bits. In an elastic job
// each worker takes its share, in proportion to those of the others, into the next membership.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "observe/record/records.h"
#include "optim/state.h"

namespace reigen {

// Shares in proportion to the speeds, in thousandths; the same as `now` unless the slowest worker's
// share takes at least 3% less time. `now` may be empty: equal shares.
std::vector<double> better_shares(std::span<const double> speeds, const std::vector<double>& now);

// Shares as recorded, and the numbers of the workers that have them.
struct PlannedShares {
  std::vector<double> shares;
  std::vector<int> workers;
};

// For RUN of --shares-of: the shares after each step at which they changed.
std::map<uint64_t, PlannedShares> recorded_shares(const std::string& run);

class WorkerShares {
 public:
  static constexpr uint64_t kEvery = 50;  // steps

  // Collective. All must outlive it. The shares of a checkpoint with a different number of workers
  // are dropped. Throws ConfigError on rank 0 when --shares-of names no run with such shares.
  WorkerShares(Job& job, const TrainOptions& options, Choices& choices);

  // A step that this worker has computed: its share of the cost of the batch.
  void measured(const ReadyBatch& ready, const StepRecord& record);
  // Whether adapt() has to be called after this step; the same on all ranks.
  bool due(uint64_t step) const;
  // Collective. True when the shares have changed: the next batches are to be cut by them.
  bool adapt(uint64_t step);
  // Of the last change, for rank 0.
  const SharesRecord& record() const { return record_; }

  // The numbers of the workers, by rank, that have the shares in Choices.
  const std::vector<int>& workers() const { return workers_; }
  // The shares in Choices come from a different worker, which says whose they are.
  void adopt(std::vector<int> workers) { workers_ = std::move(workers); }
  // In the next membership, after `step`: those of the present workers are in Choices, and in the
  // record. Not collective.
  void rejoin(uint64_t step);

 private:
  bool use(uint64_t step, std::vector<double> shares);
  void note(uint64_t step);
  double own_speed() const;

  Job& job_;
  Choices& choices_;
  std::vector<int> workers_;
  bool measures_;
  std::map<uint64_t, PlannedShares> planned_;  // --shares-of: by step
  std::vector<double> speeds_;                 // of the last steps
  SharesRecord record_;
};

}  // namespace reigen
