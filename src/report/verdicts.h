// What limited a run, whether it is trained and whether it overfits: each by a rule that is stated,
// with how sure it is, and "cannot tell" where that is the truth.
//
// Only exposed time counts: what a step waited for. How busy a GPU reports itself is no evidence,
// because a collective that waits spins at 100%.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "observe/record/run_summary.h"
#include "report/curve_fit.h"

namespace reigen {

struct Verdict {
  std::string about;       // "bottleneck"
  std::string verdict;     // "network", or "cannot tell"
  std::string confidence;  // high, medium, low; empty when it cannot tell
  std::string because;     // the evidence, or why it cannot tell
  std::string rule;
  std::string advice;  // may be empty
};

// Where the time of steps (but the first), evaluations and checkpoints went, in seconds. They add
// up to `total`; how long the run took is observe/run_time.h's.
struct TimeShares {
  double total = 0;
  double input = 0;  // rank 0's waiting for it, or for a rank that was late because of its own
  double compute = 0;
  double compression = 0;  // of gradients
  double network = 0;      // what in each step also the last rank to arrive waited for
  double straggler = 0;    // what rank 0 waited beyond that, for whoever came last
  double awaited = 0;      // of that, what rank 0 computed itself while the others waited for it
  double contended = 0;    // exchanges that the link had done, waiting for a processor
  double evaluation = 0;
  double checkpoint = 0;
  double other = 0;
  bool comparable = true;  // all ranks took part in about the same steps
  int slowest_rank = -1;
  double slowest_ratio = 1;  // its own work against the others' median
  int held_rank = -1;        // the one that was not let run for the longest
  double held_share = 0;     // of the time
  bool held = false;         // that is why it is the slowest
  double input_late = 0;     // seconds a step that the slowest waits for input beyond the others
  int input_rank = -1;       // the slowest, where that is most of what it is late by

  double computing() const { return compute + awaited; }  // all that rank 0 computed
};

// How fast the steps computed: operations of matrix products in the time spent computing, against
// what the workers' devices do in a large product. Zeros where the log does not say, and where the
// attempts at a run had other workers or devices.
struct Efficiency {
  double achieved = 0;  // FLOP/s
  double capacity = 0;
  double share() const { return capacity > 0 ? achieved / capacity : 0; }
};
Efficiency efficiency(const RunSummary& run, const TimeShares& shares);

// Whether workers exchange anything between machines.
bool crosses_network(const RunSummary& run);

constexpr double kWellUsed = 0.3;  // of the capacity, below which computing itself is inefficient
constexpr double kSlower = 1.15;   // than the others' median, to be called a straggler
constexpr double kHeld = 0.1;      // of the time not let run, beyond twice the others' median

TimeShares time_shares(const RunSummary& run);
// What rank 0 did besides computing, the largest first, without what is next to nothing.
std::vector<std::pair<std::string, double>> parts_of(const RunSummary& run,
                                                     const TimeShares& shares);
Verdict bottleneck(const RunSummary& run, const TimeShares& shares);
Verdict overfitting(const RunSummary& run);
Verdict trained(const RunSummary& run);

// "0.071 less loss (80% interval 0.060 to 0.082)", or more loss.
std::string text_of(const ExpectedGain& gain);

// Validation loss against its best. Training loss is the mean of the steps since the evaluation
// before.
struct LossTrend {
  double best_step = 0;
  double best = 0;
  double last = 0;
  std::ptrdiff_t later = 0;  // evaluations since the best
  std::ptrdiff_t worse = 0;  // evaluations at the end that are clearly above it
  double train_at_best = 0;
  double train_now = 0;
  double gap() const { return last - train_now; }
};
std::optional<LossTrend> loss_trend(const RunSummary& run);  // nothing without an evaluation

Points validation_losses(const RunSummary& run);
Points training_losses(const RunSummary& run);  // without smoothing, with dropout

}  // namespace reigen
