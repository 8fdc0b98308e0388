// --shares: how much of each batch a worker gets.
//
// Equal shares are the default: then time decides nothing. Measured shares follow the speed of each
// worker; rank 0 chooses new ones every kEvery steps if a step gets clearly shorter, and the same
// step on all ranks is the first with them. Dropout is keyed by the token in the batch, so a change
// of shares changes rounding only. Every change is recorded in the log, and the present shares in
// each checkpoint; --shares-of repeats the changes of a run, and so its bits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
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

 private:
  bool use(uint64_t step, const std::vector<double>& shares);
  double own_speed() const;

  Job& job_;
  Choices& choices_;
  bool measures_;
  std::map<uint64_t, std::vector<double>> planned_;  // --shares-of: by step
  std::vector<double> speeds_;                       // of the last steps
  SharesRecord record_;
};

// For RUN of --shares-of: the shares after each step at which they changed.
std::map<uint64_t, std::vector<double>> recorded_shares(const std::string& run);

}  // namespace reigen
