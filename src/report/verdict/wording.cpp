#include "report/verdict/wording.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "dist/compress/compressor.h"
#include "report/verdict/change_points.h"
#include "report/verdict/thresholds.h"

namespace reigen {
namespace {

constexpr double kEightyPercent = 1.2816;  // standard deviations to each side that hold 80%
// Joins sentences with semicolons.
void append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

std::string percent_text(double share) { return format("{:.0f}%", 100 * share); }

std::string first_step_text(double step) { return with_commas(static_cast<uint64_t>(step)); }

std::string shares_text(const Judgement& j, const std::string& of) {
  const TimeShares& s = j.shares;
  std::string text =
      format("{}: {} compute", of, percent_text(s.all_compute() / std::max(1e-9, s.total)));
  for (const CauseShare& part : j.parts) {
    text += format(", {} {}", percent_text(part.share), info_of(part.cause).label);
  }
  return text;
}

// The changes that matter most: the last ones.
std::string changes_text(const Bottleneck& b) {
  constexpr size_t kMostTold = 2;
  if (!b.course || b.course->changes.empty()) return "";
  const std::vector<Change>& changes = b.course->changes;
  std::string text;
  if (changes.size() > kMostTold) {
    text = format("the time of a step changed {} times, last as follows", changes.size());
  }
  for (size_t i = changes.size() - std::min(kMostTold, changes.size()); i < changes.size(); ++i) {
    append(text, text_of(changes[i]));
  }
  return text;
}

// Whether the other ranks wait for some, for whatever reason.
bool late_ranks(const Bottleneck& b) { return b.rank >= 0 && b.cause != Cause::kInput; }

std::string cores_evidence(const Bottleneck& b) {
  const bool about_cores =
      b.cause == Cause::kInterference || b.cause == Cause::kSharedCores ||
      b.shares.interference + b.shares.shared_cores > kMentionedShare * b.shares.total;
  const auto use = b.uses.find(0);
  if (!about_cores || use == b.uses.end()) return "";
  const auto late = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  std::string text;
  if (late.at(0).lost_to_workers >= kLostShare) {
    text = late.at(0).sharing.size() < 2 ? "rank 0: " + sharing_text(late.at(0))
                                         : sharing_text(late.at(0));
  }
  append(text, format("cores of rank 0: {}", text_of(late.at(0))));
  return text;
}

// Of a single worker as well: nothing else shows that a host swaps.
std::string memory_evidence(const Bottleneck& b) {
  std::string text;
  for (const auto& [rank, use] : b.uses) {
    if (use.major_faults < kManyFaults) continue;
    append(text, format("rank {} read {:.0f} pages per second back from disk: its host is short of "
                        "memory, or reads the program and the data for the first time",
                        rank, use.major_faults));
  }
  return text;
}

std::string evidence_of(const Bottleneck& b) {
  const TimeShares& s = b.shares;
  std::string text = changes_text(b);
  if (b.of_last_stretch) append(text, shares_text(b, "since then"));
  append(text, shares_text(b.whole, "of all time in steps, evaluations and checkpoints"));
  append(text, cores_evidence(b));
  append(text, memory_evidence(b));
  if (late_ranks(b)) {
    append(text, late_ranks_text(s, b.of_last_stretch ? b.course->stretches.back().uses : b.uses));
  }
  if (s.contention > 0) {
    append(text, "exchanges took longer than the link needs, while all CPU cores were busy");
  }
  if (s.awaited > 0 && s.awaited >= kListedShare * s.total) {
    append(text, format("for {} of the time the other ranks waited while rank 0 computed",
                        percent_text(s.awaited / std::max(1e-9, s.total))));
  }
  if (s.writing > kListedShare * s.total) {
    append(text, format("of the {} for checkpoints, {} is in steps that took longer while one was "
                        "written in the background",
                        percent_text(s.checkpoint / s.total), percent_text(s.writing / s.total)));
  }
  if (b.cause == Cause::kNetwork && b.prediction) {
    append(text, slow_links_text(*b.prediction, b.nominal_speed));
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

// "`reigen train --run RUN --eval.every 20`"; the path is not known to every caller.
std::string command(const Bottleneck& b, const std::string& options) {
  return format("`reigen train --run {} {}{}`", b.place.path.empty() ? "RUN" : b.place.path,
                options, b.place.limit > 0 ? format(" --max-steps {}", b.place.limit) : "");
}

// The bounds of what an advice saves, of the time considered.
std::string saving_text(double low, double high) {
  return format("expected to save {} to {} of the time", percent_text(std::max(0.0, low)),
                percent_text(high));
}

// How far the mean of as many durations may be from theirs, as a share of it: the 80% interval.
double spread_of(const std::vector<double>& seconds) {
  const auto n = static_cast<double>(seconds.size());
  double mean = 0;
  for (const double s : seconds) mean += s / n;
  double squares = 0;
  for (const double s : seconds) squares += (s - mean) * (s - mean);
  // A single duration says nothing about its scatter.
  if (n < 2 || mean <= 0) return 1;
  return std::min(1.0, kEightyPercent * std::sqrt(squares / (n - 1) / n) / mean);
}

std::string evaluate_less(const Bottleneck& b) {
  if (!b.place.options || b.place.options->eval.every == 0) {
    return "use a larger --eval.every, or fewer --eval.sentences";
  }
  const double half = b.whole.shares.evaluation / std::max(1e-9, b.whole.shares.total) / 2;
  const double spread = spread_of(b.evaluations);
  return format("{} evaluates half as often, {}; fewer --eval.sentences saves as well",
                command(b, format("--eval.every {}", 2 * b.place.options->eval.every)),
                saving_text(half * (1 - spread), half * (1 + spread)));
}

std::string save_less(const Bottleneck& b) {
  std::string advice;
  // An evaluation is followed by a checkpoint, so that its step can become the best.
  if (b.place.options && b.place.options->eval.every > 0 &&
      2 * b.evaluations.size() > b.saves.size()) {
    const TimeShares& s = b.whole.shares;
    const double both = (s.checkpoint + s.evaluation) / std::max(1e-9, s.total) / 2;
    const double scatter = std::max(spread_of(b.saves), spread_of(b.evaluations));
    return format("{} evaluates and saves half as often, because each evaluation also saves, {}",
                  command(b, format("--eval.every {}", 2 * b.place.options->eval.every)),
                  saving_text(both * (1 - scatter), both * (1 + scatter)));
  }
  const double half = b.whole.shares.checkpoint / std::max(1e-9, b.whole.shares.total) / 2;
  const double spread = spread_of(b.saves);
  if (b.place.options && b.place.options->checkpoint.every > 0) {
    advice =
        format("{} saves half as often, {}",
               command(b, format("--checkpoint.every {}", 2 * b.place.options->checkpoint.every)),
               saving_text(half * (1 - spread), half * (1 + spread)));
    append(advice, "a faster disk for the run directory helps as well");
  } else {
    advice = "use a larger --checkpoint.every, or a faster disk for the run directory";
  }
  if (b.whole.shares.evaluation > 0) append(advice, "each evaluation also saves (--eval.every)");
  if (computed_on_host(b.compression)) {
    append(advice, format("with --compress {} each checkpoint also gathers the compression "
                          "state of all workers over the link, which a faster disk does not "
                          "shorten",
                          text_of(b.compression)));
  }
  return advice;
}

std::string faster_link(const Bottleneck& b) {
  if (!b.prediction || b.prediction->better.empty()) {
    return "use a larger batch (fewer exchanges for the same text) or a faster link between hosts; "
           "`reigen doctor` predicts what --compress would bring";
  }
  // The prediction of this run's own step shows how good such predictions are here.
  const PredictionRecord& p = *b.prediction;
  const double error = b.mean_step > 0 ? b.mean_step / p.seconds : 1;
  const double low = p.better_seconds * std::min(1.0, error);
  const double high = p.better_seconds * std::max(1.0, error);
  return format(
      "{} is predicted to shorten a step to {}; with the error of the prediction of this "
      "run, {} to {} (its gradients are rounded: compare the losses); a larger batch or a "
      "faster link between hosts helps as well",
      command(b, "--compress " + p.better), human_seconds(p.better_seconds), human_seconds(low),
      human_seconds(high));
}

std::string stop_others(const Bottleneck& b) {
  const double lost = b.shares.interference / std::max(1e-9, b.shares.total);
  std::string advice =
      "end the other processes on these cores (`top` names them), or move the run to cores of its "
      "own";
  if (late_ranks(b)) {
    const double wait = b.shares.straggler / std::max(1e-9, b.shares.total);
    return advice + format("; the job waited for that rank for {} of the time", percent_text(wait));
  }
  if (lost <= 0) return advice;
  // By the time that threads waited, and by the cores that the others had.
  const auto uses = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  const WorkerUse& use = uses.at(0);
  const double by_time = 1 / std::max(0.05, 1 - lost);
  const double by_cores = (use.own + use.others) / std::max(0.05, use.own);
  double least = std::min(by_time, by_cores);
  double most = std::max(by_time, by_cores);
  if (b.of_last_stretch) {  // as fast as before
    const Change& change = b.course->changes.back();
    most = std::max(most, change.after / change.before);
    least = std::min(least, change.after / change.before);
  }
  return advice + format("; expected: {:.1f} to {:.1f} times the throughput", least, most);
}

std::string fewer_threads(const Bottleneck& b) {
  const auto late = std::find_if(b.shares.late.begin(), b.shares.late.end(), [](const LateRank& r) {
    return r.reason == SlowReason::kSharedCores;
  });
  const auto found = b.uses.find(late == b.shares.late.end() ? 0 : late->rank);
  if (found == b.uses.end() || found->second.sharing.size() < 2) {
    return "use --threads with the number of cores that a worker may use";
  }
  const WorkerUse& use = found->second;
  const std::string pinned = format(
      "if the limit to cores {} is not intended, lift it (taskset, the batch system)", use.list);
  if (use.sharing.size() < b.uses.size()) {
    return format("give {} cores of their own: {}", ranks_text(use.sharing), pinned);
  }
  const auto cores = std::max(1, static_cast<int>(use.cores));
  if (cores == 1) {
    return format("{} trains as fast without exchanges; {}", command(b, "--workers 1"), pinned);
  }
  return format("{} gives each worker a core of its own; {}",
                command(b, format("--workers {} --threads 1", cores)), pinned);
}

std::string advice_of(const Bottleneck& b, Advice advice) {
  switch (advice) {
    case Advice::kNone:
      return "";
    case Advice::kFasterProcessors:
      return "more or faster processors shorten the steps; a faster network does not";
    case Advice::kLargerProducts:
      return format(
          "compute reaches only {} of the speed of large matrix products: use a larger "
          "--batch.target-tokens or a wider model",
          percent_text(b.efficiency.share()));
    case Advice::kFreeCores:
      return "use fewer workers or stop other work on these hosts: all their cores are busy, and "
             "gradient exchanges wait for one; a faster network does not help";
    case Advice::kFasterLink:
      return faster_link(b);
    case Advice::kOneWorkerPerGpu:
      return "use one worker for each GPU, so that NCCL can exchange gradients, or a larger batch";
    case Advice::kFewerWorkers:
      return "use fewer workers on this host, with more --threads each";
    case Advice::kCheaperCompression:
      return format("{} takes almost no time to compute", command(b, "--compress bf16"));
    case Advice::kInspectHost:
      return "look for other work on the cores of that rank first (`top` on its host), then "
             "whether "
             "it has fewer cores, a slower clock (temperature, power) or slower memory than the "
             "others";
    case Advice::kInspectQuota:
      return "inspect the host of that rank: its worker is descheduled (a CPU quota, a container's "
             "limit, a paused VM)";
    case Advice::kStopOthers:
      return stop_others(b);
    case Advice::kFewerThreads:
      return fewer_threads(b);
    case Advice::kFasterDisk:
      return "use a faster disk for the data, or a copy on the host itself";
    case Advice::kFasterDiskOfRank:
      return format(
          "use a faster disk for the data of rank {}, or a copy on its host; the other ranks get "
          "their input in time",
          b.rank);
    case Advice::kEvaluateLess:
      return evaluate_less(b);
    case Advice::kSaveLess:
      return save_less(b);
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
      "otherwise compute. The same of the steps since the last change, where steps became slower "
      "and that share is not compute. A straggler also works {} longer per step than the faster "
      "ranks, or is descheduled for {} of the time beyond twice the median. Interference and "
      "shared "
      "cores are computing time in which threads waited for a core. A change is a level of step "
      "time that lasts, differs by {} and hardly overlaps with the level before. Start-up is not "
      "part of this time, and is mentioned from {} of the run on",
      percent_text(kNamedShare), percent_text(kNamedShareBesideCompute),
      percent_text(kSlowRankInRun - 1), percent_text(kDescheduledShare),
      percent_text(kLeastChange - 1), percent_text(kSlowStartShare));
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
                   .advice = advice_of(b, b.advice)};
  if (b.cause == Cause::kUnknown) {
    v.because = format("a verdict needs {:.0f} steps after the first, and the run has {:.0f}",
                       kFewestSteps, b.steps);
  } else {
    v.because = evidence_of(b);
  }
  if (b.of_last_stretch) {
    const Change& change = b.course->changes.back();
    v.since = format("from step {} on", first_step_text(change.step));
  }
  if (b.cause == Cause::kCompute && b.largest.share >= kMentionedShare) {
    append(v.because, format("the largest avoidable part was {} with {}",
                             info_of(b.largest.cause).label, percent_text(b.largest.share)));
    append(v.advice, advice_of(b, info_of(b.largest.cause).advice));
  }
  if (late_ranks(b)) {
    std::vector<int> ranks;
    for (const LateRank& late : b.shares.late) ranks.push_back(late.rank);
    std::sort(ranks.begin(), ranks.end());
    if (ranks.empty()) ranks.push_back(b.rank);
    v.verdict = format("{}: {}", id_of(b.cause), ranks_text(ranks));
  }
  v.summary = summary_of(b);
  if (b.time.slow_start()) {
    append(v.because, start_up_text(b.time));
    append(v.advice, start_up_advice(b.time));
  }
  return v;
}

}  // namespace reigen
