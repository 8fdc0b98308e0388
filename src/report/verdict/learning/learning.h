// Whether a model is trained and whether it overfits, by its losses along the run. Values only; the
// sentences are in report/verdict/learning/wording.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/train_options.h"
#include "observe/record/run_summary.h"
#include "report/verdict/learning/data_health.h"
#include "report/verdict/learning/expected_gain.h"
#include "report/verdict/learning/loss_rises.h"
#include "report/verdict/verdict_text.h"

namespace reigen {

// Facts about a run's learning that its log lacks.
struct LearningContext {
  std::string run;  // directory, for commands
  std::optional<TrainOptions> options;
  DataFacts data;
};
// Of a run directory, with the options that it recorded, where they can be read.
LearningContext learning_context(const std::string& run, std::optional<TrainOptions> options);
DataHealth data_health(const RunSummary& run, const LearningContext& context);

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
  enum class Answer : uint8_t { kUnknown, kNo, kNear, kYes };
  Answer answer = Answer::kUnknown;
  Confidence confidence = Confidence::kNone;
  size_t evaluations = 0;
  uint64_t leaked = 0;  // kUnknown: validation pairs that are training pairs, too
  double speed = 0;     // slope of validation loss / slope of training loss; below 0.15 it is near
  double epochs = 0;
  bool turned = false;  // validation loss rises while training loss falls
  bool dropout = true;
  // Dropout so high that training loss stays far above validation loss: the rate to try; 0: it is
  // not.
  double less_dropout = 0;
  double dropout_rate = 0;
  std::string run;  // directory
  LossTrend trend;  // where it is known
};
Overfitting overfitting(const RunSummary& run, const LearningContext& context = {});
const char* id_of(Overfitting::Answer answer);  // in report.json

// Where the last step lies in a run whose learning rate decays in its last steps: wsd, or any
// schedule after --decay-now.
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

// Sum of learning rates below which weights have hardly moved: initial weights are about as large.
constexpr double kLittleTravel = 0.03;
// Ten times the weight decay that is usual for Transformers, or more.
constexpr double kMuchWeightDecay = 0.5;

// Whether the validation loss means anything, compared with a model that knows nothing, and one
// that knows only how often each piece occurs.
struct LossLevel {
  enum class Fault : uint8_t {
    kNone,
    kWorseThanGuessing,  // above ln(vocabulary)
    kFrequenciesOnly,    // at the entropy of single pieces, and no longer falling
    kHardlyLearns,      // above both of these, because the weights can hardly have moved, or stands
    kUnlikeValidation,  // stands far above training loss in the first epoch, where text is new
    kUnusedSources,     // levelled off, and translations do not depend on what they translate
    kUselessBleu,       // a low loss, and text that shares next to nothing with its references
  };
  Fault fault = Fault::kNone;
  bool repeated = false;    // or training pairs occur several times in an epoch (below)
  bool unlike = false;      // validation text is of a different kind than training text
  double unlike_valid = 0;  // the losses that show it
  double unlike_train = 0;
  double valid = 0;        // at its best
  double train = 0;        // of the same evaluation
  double guessing = 0;     // ln(vocabulary); 0: not known
  double frequencies = 0;  // entropy of single target pieces; 0: not known
  double bleu = 0;         // best
  double norm = 0;         // mean gradient norm of the last tenth of the steps
  double clip = 0;         // 0: none
  double rate = 0;         // mean learning rate of the last tenth
  double weight_decay = 0;
  SourceUse sources;  // kUnusedSources
  double travel = 0;  // sum of all learning rates: about the most that Adam has moved any weight
  bool clipped() const { return clip > 0 && norm > clip; }
  bool decayed_away() const { return weight_decay >= kMuchWeightDecay; }
  bool rate_too_low() const { return travel > 0 && travel < kLittleTravel; }
  bool useless() const { return fault != Fault::kNone && fault != Fault::kUselessBleu; }
};
LossLevel loss_level(const RunSummary& run, const LearningContext& context);
const char* id_of(LossLevel::Fault fault);  // in report.json

// How much of the planned run is done; zeros where no end is planned.
struct Plan {
  double step = 0;
  double last = 0;  // --max-steps, or the end of a decay that has begun
  double epochs = 0;
  double last_epoch = 0;  // --max-epochs
  double share() const;   // 0 where no end is planned
};
Plan plan_of(const RunSummary& run, const LearningContext& context);

struct Trained {
  enum class Answer : uint8_t {
    kUnknown,
    kYes,           // levelled off
    kPastItsBest,   // overfits
    kNearBest,      // neither a gain nor a loss is to be expected, or validation loss turns
    kScheduleOver,  // its learning rate is at its end
    kImproving,
    kGettingWorse,
    kUseless,  // LossLevel
    kDiverged,
  };
  enum class Evidence : uint8_t {
    kPrediction,
    kTooFew,   // too few evaluations for a prediction
    kScatter,  // losses scatter too much for an answer
    kDecay,    // the decay of the learning rate has not ended
  };
  Answer answer = Answer::kUnknown;
  Evidence evidence = Evidence::kPrediction;
  Confidence confidence = Confidence::kNone;
  uint64_t step = 0;           // at which it diverged
  uint64_t skipped_steps = 0;  // loss or gradient was not finite
  double skipped_share = 0;    // of the steps
  bool fp16 = false;
  bool stopped = false;         // diverged, and ended itself
  std::vector<LossRise> rises;  // of training loss
  LossTrend trend;
  LossLevel level;
  Plan plan;
  RateDecay::Phase phase = RateDecay::Phase::kNone;
  Points losses;                    // of validation
  double early_training = 0;        // kTooFew: mean training loss of the first third of the steps
  double late_training = 0;         // and of the last third
  double rate = 0;                  // of the last step
  double peak_rate = 0;             // so far
  double rate_since = 0;            // kScheduleOver: first step at about the last rate
  bool training_falls = false;      // over the last third of the steps
  std::vector<ExpectedGain> gains;  // of more steps
  std::vector<ExpectedGain> bleu_gains;   // the same of BLEU, where it was measured
  std::optional<ExpectedGain> to_end;     // up to the planned end
  std::optional<ExpectedGain> of_decay;   // of a decay that begins now
  std::optional<ExpectedGain> of_longer;  // kAfter: of a run that is half as long again
  double decay_steps = 0;                 // of of_decay
  double warmup_end = 0;                  // last step of the warm-up, where the run is within it
  std::optional<ScheduleOptions> schedule;
  std::string run;  // directory
};
Trained trained(const RunSummary& run, const LearningContext& context = {});
const char* id_of(Trained::Answer answer);  // in report.json

// The losses of a run and its learning rate at any step. Without options that make a schedule, the
// last rate is that of all steps.
LearningCurve learning_curve(const RunSummary& run, const LearningContext& context);

Points validation_losses(const RunSummary& run);
// Of each metric of eval.command, by name.
std::map<std::string, Points> metric_points(const RunSummary& run);

// Loss and BLEU of each direction of a model of several target languages, by its name; of at most
// kMostDirections.
inline constexpr size_t kMostDirections = 6;  // a line for each, in different colours
struct DirectionCurves {
  std::map<std::string, Points> losses;
  std::map<std::string, Points> bleu;
};
DirectionCurves direction_curves(const RunSummary& run);
Points training_losses(const RunSummary& run);  // without smoothing, with dropout

// Limits of the verdicts on learning.
constexpr double kWorseLoss = 0.01;        // share of the best loss
constexpr double kTrainedGain = 0.01;      // share of the loss that 50% more steps gain
constexpr double kSmallGain = 0.02;        // share of the loss; larger intervals are no answer
constexpr std::ptrdiff_t kWorseInRow = 2;  // evaluations
constexpr size_t kFewestForTrend = 3;      // evaluations
// Share of the loss between two evaluations, where they are too few for a prediction. Twice
// kWorseLoss, because one fall alone decides.
constexpr double kClearFall = 0.02;
// Slope of validation loss / slope of training loss, below which overfitting is near.
constexpr double kNearTurn = 0.15;
// Standard deviations from zero at which a predicted gain is certain.
constexpr double kCertain = 2.8;
// The schedule has ended below this share of the peak: of the mean rate of the next doubling of
// steps, and of the rate now.
constexpr double kRateOver = 0.02;
constexpr double kRateNearEnd = 0.05;
// Share of the highest rate so far, below which the schedule itself is taking the rate down.
constexpr double kFallenRate = 0.7;
// Length of a decay that begins now, as a share of the steps so far: it is then the last fifth of
// the run, as in stalled_decay (optim/schedule.h).
constexpr double kAdvisedDecay = 0.25;
// Slope of training loss by ln(step), as a share of the loss, below which little is learnt.
constexpr double kLearningSlope = 0.03;
constexpr double kUnlikeGap = 0.1;        // of validation loss, within the first epoch
constexpr double kFarGap = 0.5;           // the same, where validation loss does not fall
constexpr double kFrequencyShare = 0.95;  // of the entropy of single pieces
constexpr double kFrequencyMost = 1.1;    // the same, above which not even frequencies are learnt
constexpr double kDivergedRise = 1.5;     // of training loss, where it lasts
constexpr double kManySkipped = 0.05;     // share of the steps
// Training loss (with dropout) against validation loss, from which on dropout is too high, and the
// dropout rate from which on it may be.
constexpr double kHeldBack = 1.1;
constexpr double kMuchDropout = 0.4;  // 0.3 is usual for small corpora
constexpr double kUselessBleu = 2;    // BLEU that is nothing
// Loss below which BLEU is something; also as a share of the entropy of single pieces.
constexpr double kGoodLoss = 1.2;
constexpr double kGoodShare = 0.35;
constexpr double kStandingFall = 0.02;  // share that a loss falls by over half of the steps

}  // namespace reigen
