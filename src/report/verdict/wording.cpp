#include "report/verdict/wording.h"

#include <algorithm>

#include "base/format.h"
#include "dist/compress/compressor.h"
#include "report/verdict/thresholds.h"

namespace reigen {
namespace {

// Joins sentences with semicolons.
void append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

std::string percent_text(double share) { return format("{:.0f}%", 100 * share); }

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

}  // namespace reigen
