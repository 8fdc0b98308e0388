#include "report/verdict/wording.h"

#include <algorithm>

#include "base/format.h"
#include "dist/compress/compressor.h"
#include "report/verdict/thresholds.h"

namespace reigen {
namespace {

constexpr const char* kTrainOn = "resume with `reigen train --run RUN --max-steps N`";
constexpr const char* kLowerRate =
    "lower the learning rate, lengthen its warm-up or set optimizer.clip";

// Joins sentences with semicolons.
void append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

std::string percent_text(double share) { return format("{:.0f}%", 100 * share); }

std::string step_text(double step) { return with_commas(static_cast<uint64_t>(step)); }

std::string evidence_of(const Bottleneck& b) {
  const TimeShares& s = b.shares;
  const double whole = std::max(1e-9, s.total);
  std::string text = format("of the time in steps, evaluations and checkpoints, {} was compute",
                            percent_text(s.all_compute() / whole));
  for (const CauseShare& part : b.parts) {
    text += format(", {} {}", percent_text(part.share), info_of(part.cause).label);
  }
  if (s.contention > 0) {
    append(text, "exchanges took longer than the link needs, while all CPU cores were busy");
  }
  if (s.awaited > 0 && s.awaited >= kListedShare * s.total) {
    append(text, format("for {} of the time the other ranks waited while rank 0 computed",
                        percent_text(s.awaited / whole)));
  }
  if (b.efficiency.capacity > 0) {
    append(text, format("compute reached {}, {} of {} in large matrix products",
                        human_flops(b.efficiency.achieved), percent_text(b.efficiency.share()),
                        human_flops(b.efficiency.capacity)));
  }
  if (!s.comparable) {
    append(text,
           "the number of workers changed during the run, so ranks are not compared and none is "
           "called slow");
  }
  if (s.late_input_rank >= 0) {
    append(text, format("rank {} waited {} per step longer for its input than the other ranks, and "
                        "they waited for it",
                        s.late_input_rank, human_seconds(s.late_input)));
  }
  if (s.descheduled_share >= kDescheduledShare) {
    append(text, format("rank {} was descheduled for {} of the time (CPU quota, stop signal or "
                        "paused VM)",
                        s.descheduled_rank, percent_text(s.descheduled_share)));
  }
  return text;
}

std::string advice_of(const Bottleneck& b) {
  switch (b.advice) {
    case Advice::kNone:
      return "";
    case Advice::kFasterProcessors:
      return "more or faster processors shorten the steps; a faster network or disk does not";
    case Advice::kLargerProducts:
      return format(
          "compute reaches only {} of the speed of large matrix products: use a larger "
          "--batch.target-tokens or a wider model, or save money with a slower processor",
          percent_text(b.efficiency.share()));
    case Advice::kFreeCores:
      return "use fewer workers or stop other work on these hosts: all their cores are busy, and "
             "gradient exchanges wait for one; a faster network does not help";
    case Advice::kFasterLink:
      return "use --compress auto (`reigen doctor` predicts its gain), a larger batch (fewer "
             "exchanges for the same text) or a faster link between hosts";
    case Advice::kOneWorkerPerGpu:
      return "use one worker for each GPU, so that NCCL can exchange gradients, or a larger batch";
    case Advice::kFewerWorkers:
      return "use fewer workers on this host, with more --threads each";
    case Advice::kCheaperCompression:
      return "use --compress none or bf16, which take almost no time to compute";
    case Advice::kInspectHost:
      return "inspect the host of that rank: fewer cores, a slower clock or slower memory";
    case Advice::kInspectQuota:
      return "inspect the host of that rank: its worker is descheduled (a CPU quota, a container's "
             "limit, a paused VM)";
    case Advice::kFasterDisk:
      return "use a faster disk for the data, or a copy on the host itself";
    case Advice::kFasterDiskOfRank:
      return format(
          "use a faster disk for the data of rank {}, or a copy on its host; the other ranks get "
          "their input in time",
          b.rank);
    case Advice::kEvaluateLess:
      return "use a larger --eval.every, or fewer --eval.sentences";
    case Advice::kSaveLess: {
      // An evaluation is followed by a checkpoint, so that its step can become the best.
      std::string advice =
          "use a larger --eval.every (each evaluation also saves), a larger --checkpoint.every, or "
          "a faster disk for the run directory";
      if (computed_on_host(b.compression)) {
        append(advice, format("with --compress {} each checkpoint also gathers the compression "
                              "state of all workers over the link, which a faster disk does not "
                              "shorten",
                              text_of(b.compression)));
      }
      return advice;
    }
  }
  return "";
}

std::string start_up_advice(const RunTime& time) {
  return time.slow_data()
             ? "for a shorter start-up, use a faster disk for the data, or a copy on the host "
               "itself: all of the data is read and verified before the first step"
             : "each attempt has one start-up: a longer attempt spends a smaller share on it";
}

std::string bottleneck_rule() {
  return format(
      "the largest share of the time in steps (without the first), evaluations and checkpoints "
      "that was not compute, if it is at least {}, or {} where compute took more than half; "
      "otherwise compute. A straggler also works {} longer per step than the median of the other "
      "ranks, or is descheduled for {} of the time beyond twice their median. Start-up is not part "
      "of this time, and is mentioned from {} of the run on",
      percent_text(kNamedShare), percent_text(kNamedShareBesideCompute),
      percent_text(kSlowRankInRun - 1), percent_text(kDescheduledShare),
      percent_text(kSlowStartShare));
}

std::string missing_curve_text(const Trained& t) {
  return t.evidence == Trained::Evidence::kTooSteep
             ? "the losses fall too steeply for a curve that levels off above zero"
             : format("a curve needs {}, and the run has {}",
                      counted(kFewestEvaluations, "evaluation"), t.losses.size());
}

// Without a curve: why the run improves or why that is unknown.
std::string without_curve_text(const Trained& t) {
  const std::string why = missing_curve_text(t);
  const Points& v = t.losses;
  if (t.answer == Trained::Answer::kUnknown) {
    if (v.size() < 2) return why;
    return format("{}; the last loss is not the best by more than {}", why,
                  percent_text(kClearFall));
  }
  const auto& [step, loss] = v.back();
  const auto& [step_before, loss_before] = v[v.size() - 2];
  return format(
      "from step {} to step {}, the last two evaluations, validation loss fell from {:.3f} to "
      "{:.3f}, by {}; the gain of more steps is unknown: {}",
      step_text(step_before), step_text(step), loss_before, loss,
      percent_text(1 - loss / loss_before), why);
}

// A run whose decay is over is continued by a longer run, not by more steps at its last rate.
std::string gains_text(const Trained& t) {
  std::string text;
  if (t.phase == RateDecay::Phase::kAfter) {
    append(text,
           "by the validation losses before the decay of the learning rate, of a run that is "
           "longer from the start");
  }
  for (const ExpectedGain& gain : t.gains) {
    append(text, format("{} more steps: {}", percent_text(gain.more), text_of(gain)));
  }
  append(text, "provided that the learning rate follows its schedule");
  if (t.evidence != Trained::Evidence::kScatter) return text;
  return format("the evaluations scatter too much to show whether a gain of {:.3f} is left: {}",
                kTrainedGain * t.losses.back().second, text);
}

std::string decay_text(const Trained& t) {
  return t.phase == RateDecay::Phase::kWithin
             ? "the decay of the learning rate, in which validation loss falls, has not ended"
             : "the learning rate has not decayed yet, and validation loss falls when it does";
}

// Without a curve after a decay, whose own losses cannot be extrapolated.
std::string decayed_text(const Trained& t) {
  return format(
      "the learning rate has decayed, so more steps at its last rate gain nothing; the gain of a "
      "longer run is unknown: {} (only evaluations after the warm-up and before the decay count)",
      missing_curve_text(t));
}

std::string trained_rule() {
  return format(
      "a curve c + a * step^-b is fitted to the validation losses of the last half of the run; a "
      "model is fully trained when 50% more steps are expected to gain less than {:.1f}% of the "
      "loss, or when it overfits. It gets worse when at least {} in a row at the end are {} above "
      "the best and training loss did not fall either. With fewer than {}, or a fall too steep for "
      "such a curve, it still improves when the last loss is the best and more than {} below the "
      "previous one. With a decay of the learning rate at the end of the run, a "
      "model that neither overfits nor gets worse improves until the decay ends, and the curve is "
      "fitted to the losses before the decay",
      100 * kTrainedGain, counted(kWorseInRow, "evaluation"), percent_text(kWorseLoss),
      counted(kFewestEvaluations, "evaluation"), percent_text(kClearFall));
}

}  // namespace

const char* id_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::kHigh:
      return "high";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kLow:
      return "low";
    case Confidence::kNone:
      break;
  }
  return "";
}

std::string text_of(const ExpectedGain& gain) {
  if (gain.gain < 0) {
    return format("{:.3f} more loss (80% interval {:.3f} to {:.3f} more)", -gain.gain, -gain.high,
                  -gain.low);
  }
  return format("{:.3f} less loss (80% interval {:.3f} to {:.3f})", gain.gain, gain.low, gain.high);
}

std::string text_of(const std::vector<CauseShare>& parts) {
  std::string text;
  for (const CauseShare& part : parts) {
    text += format("{}{} {}", text.empty() ? "" : ", ", info_of(part.cause).label,
                   percent_text(part.share));
  }
  return text;
}

std::string start_up_text(const RunTime& time) {
  std::string text =
      format("start-up took {}, {} of the {} of the run", human_seconds(time.start_up),
             percent_text(time.start_up / time.wall), human_seconds(time.wall));
  if (time.slow_data()) {
    text += format(", {} of it for opening and verifying data", human_seconds(time.data));
  }
  return text;
}

VerdictText text_of(const Bottleneck& b) {
  VerdictText v = {.about = "bottleneck",
                   .verdict = id_of(b.cause),
                   .confidence = id_of(b.confidence),
                   .rule = bottleneck_rule(),
                   .advice = advice_of(b)};
  if (b.cause == Cause::kUnknown) {
    v.because = format("a verdict needs {:.0f} steps after the first, and the run has {:.0f}",
                       kFewestSteps, b.steps);
  } else {
    v.because = evidence_of(b);
  }
  if (b.cause == Cause::kCompute && b.largest.share >= kMentionedShare) {
    append(v.because, format("the largest avoidable part was {}, {}", id_of(b.largest.cause),
                             percent_text(b.largest.share)));
  }
  if (b.cause == Cause::kStraggler) {
    v.verdict = format("{}: rank {}", id_of(b.cause), b.rank);
    append(v.because, format("rank {} worked {:.2f} times as long as the median of the other ranks",
                             b.rank, b.shares.slowest_ratio));
  }
  if (b.time.slow_start()) {
    append(v.because, start_up_text(b.time));
    append(v.advice, start_up_advice(b.time));
  }
  return v;
}

VerdictText text_of(const Overfitting& o) {
  VerdictText v = {.about = "overfitting", .confidence = id_of(o.confidence)};
  v.rule = format(
      "yes when validation loss was more than {} above its best in at least the last {}, while "
      "training loss fell further after that best; training loss is the mean of the steps since "
      "the previous evaluation",
      percent_text(kWorseLoss), counted(kWorseInRow, "evaluation"));
  const LossTrend& t = o.trend;
  const std::string because = format(
      "validation loss is {:.3f}, its best was {:.3f} at step {}; training loss (with dropout) "
      "was {:.3f} at that step and is {:.3f} now; the gap is {:+.3f}",
      t.last, t.best, step_text(t.best_step), t.train_at_best, t.train_now, t.gap());
  switch (o.answer) {
    case Overfitting::Answer::kUnknown:
      v.verdict = id_of(Cause::kUnknown);
      v.because = format("a verdict needs {}, and the run has {}",
                         counted(kFewestForTrend, "evaluation"), o.evaluations);
      break;
    case Overfitting::Answer::kNo:
      v.verdict = "no";
      v.because = because;
      break;
    case Overfitting::Answer::kYes:
      v.verdict = format("yes, since step {:.0f}", t.best_step);
      v.because = because;
      v.advice =
          "use the checkpoint best-loss; more data, more dropout or a smaller model helps, more "
          "steps do not";
      break;
  }
  return v;
}

VerdictText text_of(const Trained& t) {
  VerdictText v = {.about = "trained", .confidence = id_of(t.confidence), .rule = trained_rule()};
  const bool curve =
      t.evidence == Trained::Evidence::kCurve || t.evidence == Trained::Evidence::kScatter;
  switch (t.answer) {
    case Trained::Answer::kUnknown:
      v.verdict = id_of(Cause::kUnknown);
      v.because = curve                                     ? gains_text(t)
                  : t.phase == RateDecay::Phase::kAfter     ? decayed_text(t)
                  : t.evidence == Trained::Evidence::kDecay ? decay_text(t)
                                                            : without_curve_text(t);
      break;
    case Trained::Answer::kYes:
      v.verdict = "yes";
      v.because = gains_text(t);
      break;
    case Trained::Answer::kPastItsBest:
      v.verdict = "yes, and past its best";
      v.because = "the model overfits: more steps make validation loss worse";
      break;
    case Trained::Answer::kImproving:
      v.verdict = "no, still improving";
      v.because = curve ? gains_text(t) : without_curve_text(t);
      v.advice = kTrainOn;
      if (t.phase == RateDecay::Phase::kAfter) v.advice = "train a longer run";
      if (t.evidence != Trained::Evidence::kDecay) break;
      v.because = decay_text(t);
      v.advice = t.phase == RateDecay::Phase::kWithin
                     ? "resume the run up to the end of its decay"
                     : "train up to the end of the planned decay, or begin a decay of N steps now "
                       "with `reigen train --run RUN --decay-now N`";
      break;
    case Trained::Answer::kGettingWorse:
      v.verdict = format("no, getting worse since step {:.0f}", t.trend.best_step);
      v.because = format(
          "validation loss is {:.3f}, its best was {:.3f}; training loss did not fall either: "
          "{:.3f} then, {:.3f} now",
          t.trend.last, t.trend.best, t.trend.train_at_best, t.trend.train_now);
      v.advice = format("{}; resume from the checkpoint best-loss", kLowerRate);
      break;
    case Trained::Answer::kDiverged:
      v.verdict = format("no, diverged at step {}", with_commas(t.step));
      v.because = format("loss or gradient was not finite, and the run stopped after skipping {}",
                         counted(t.skipped_steps, "step"));
      v.advice = kLowerRate;
      break;
  }
  return v;
}

}  // namespace reigen
