// Verdicts on a run: its bottleneck, whether it is trained, whether it overfits. Values only; the
// sentences are in report/verdict/wording.h.
//
// Only exposed time is evidence: time that a step waited. The utilisation that a GPU reports is not
// evidence, because a collective that waits spins at 100%.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "config/compress_options.h"
#include "config/train_options.h"
#include "observe/record/run_summary.h"
#include "report/verdict/causes.h"
#include "report/verdict/curve_fit.h"
#include "report/verdict/run_time.h"

namespace reigen {

enum class Confidence : uint8_t { kNone, kLow, kMedium, kHigh };

// Rank 0's time in steps (without the first), evaluations and checkpoints, split by cause, in
// seconds that add up to `total`. Wall time and start-up are in report/verdict/run_time.h.
struct TimeShares {
  double total = 0;
  double input = 0;  // rank 0 waited for its input, or for a rank that waited for its own
  double compute = 0;
  double compression = 0;  // of gradients
  double network = 0;      // the shortest wait of any rank in each step
  double straggler = 0;    // waiting beyond that, for the last rank to arrive
  double awaited = 0;      // of that, rank 0's own compute while the others waited for it
  double contention = 0;   // exchanges that waited for a CPU core and not for the link
  double evaluation = 0;
  double checkpoint = 0;
  double other = 0;
  bool comparable = true;  // all ranks took part in about the same steps
  int slowest_rank = -1;
  double slowest_ratio = 1;      // its own work, against the median of the others
  int descheduled_rank = -1;     // the rank that was descheduled for the longest time
  double descheduled_share = 0;  // of its time
  bool descheduled = false;      // that makes it the slowest rank
  double late_input = 0;     // seconds per step that the slowest rank waits longer for its input
  int late_input_rank = -1;  // the slowest rank, where its input is most of its delay

  double all_compute() const { return compute + awaited; }
};

// FLOP/s of matrix products while computing, and in large products on the same devices. Zeros where
// the log lacks them, or where attempts had different workers or devices.
struct Efficiency {
  double achieved = 0;
  double capacity = 0;
  double share() const { return capacity > 0 ? achieved / capacity : 0; }
  bool low() const;  // below kEfficientShare
};
Efficiency efficiency(const RunSummary& run, const TimeShares& shares);

// Whether workers exchange gradients between hosts.
bool crosses_network(const RunSummary& run);

TimeShares time_shares(const RunSummary& run);

struct Bottleneck {
  Cause cause = Cause::kUnknown;
  Confidence confidence = Confidence::kNone;
  Advice advice = Advice::kNone;
  int rank = -1;       // of a straggler, or with late input
  CauseShare largest;  // the largest cause other than compute, whether it is named or not
  // The figures.
  double steps = 0;  // after the first
  TimeShares shares;
  Efficiency efficiency;
  std::vector<CauseShare> parts;  // all but compute, the largest first, without those near 0%
  CompressSetting compression;
  RunTime time;
};
Bottleneck bottleneck(const RunSummary& run, const TimeShares& shares);

// Validation loss against its best. Training loss is the mean of the steps since the previous
// evaluation.
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

struct Overfitting {
  enum class Answer : uint8_t { kUnknown, kNo, kYes };
  Answer answer = Answer::kUnknown;
  Confidence confidence = Confidence::kNone;
  size_t evaluations = 0;
  LossTrend trend;  // where it is known
};
Overfitting overfitting(const RunSummary& run);
const char* id_of(Overfitting::Answer answer);  // in report.json

// Where the last step lies in a run whose learning rate decays in its last steps: wsd, or any
// schedule after --decay-now. Validation loss falls in the decay as it does not before, so a curve
// is fitted only to the evaluations before it.
struct RateDecay {
  enum class Phase : uint8_t {
    kNone,    // the run has no such decay
    kBefore,  // the decay is still to come, or its begin is not known
    kWithin,
    kAfter,
  };
  Phase phase = Phase::kNone;
  double first = 0;  // step after the warm-up
  double begin = 0;  // last step before the decay; infinite where it is not known
};
// The step at which the limits of the latest attempt end the run; 0: not known.
int64_t last_step_of(const RunSummary& run, const TrainOptions& options);
// `options`: those of the run.
RateDecay rate_decay(const RunSummary& run, const std::optional<TrainOptions>& options);

struct Trained {
  enum class Answer : uint8_t {
    kUnknown,
    kYes,
    kPastItsBest,  // overfits
    kImproving,
    kGettingWorse,
    kDiverged,
  };
  enum class Evidence : uint8_t {
    kCurve,     // a fitted curve
    kTooFew,    // too few evaluations for a curve
    kTooSteep,  // losses fall too steeply for a curve that levels off above zero
    kScatter,   // losses scatter too much around their curve
    kDecay,     // the decay of the learning rate has not ended
  };
  Answer answer = Answer::kUnknown;
  Evidence evidence = Evidence::kCurve;
  Confidence confidence = Confidence::kNone;
  uint64_t step = 0;           // at which it diverged
  uint64_t skipped_steps = 0;  // of a run that diverged
  LossTrend trend;             // of a run that gets worse
  RateDecay::Phase phase = RateDecay::Phase::kNone;
  Points losses;  // of validation; with a decay, those before it
  std::vector<ExpectedGain> gains;
};
Trained trained(const RunSummary& run, const RateDecay& decay = {});
const char* id_of(Trained::Answer answer);  // in report.json

Points validation_losses(const RunSummary& run);
// Of each metric of eval.command, by name.
std::map<std::string, Points> metric_points(const RunSummary& run);
Points training_losses(const RunSummary& run);  // without smoothing, with dropout

// Limits of the verdicts on learning.
constexpr double kWorseLoss = 0.01;        // share of the best loss
constexpr double kTrainedGain = 0.005;     // share of the loss that 50% more steps gain
constexpr std::ptrdiff_t kWorseInRow = 2;  // evaluations
constexpr size_t kFewestForTrend = 3;      // evaluations
// Share of the loss between two evaluations, where no curve can be fitted. Twice kWorseLoss,
// because one fall alone decides.
constexpr double kClearFall = 0.02;

}  // namespace reigen
