#include "report/verdict/machine/wording.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "dist/compress/compressor.h"
#include "report/verdict/machine/change_points.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

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
    append_clause(text, text_of(changes[i]));
  }
  return text;
}

std::string cores_evidence(const Bottleneck& b) {
  const auto late = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  const auto use = late.find(0);
  const bool about_cores =
      b.cause == Cause::kInterference || b.cause == Cause::kSharedCores ||
      b.cause == Cause::kQuota || b.cause == Cause::kSteal ||
      b.shares.lost_compute() > kMentionedShare * b.shares.total ||
      (b.confidence == Confidence::kLow && use != late.end() && use->second.waits_for_others());
  if (!about_cores || use == late.end() || !use->second.known) return "";
  std::string text;
  if (late.at(0).lost_to_workers >= kLostShare) {
    text = late.at(0).sharing.size() < 2 ? "rank 0: " + sharing_text(late.at(0))
                                         : sharing_text(late.at(0));
  }
  append_clause(text, format("cores of rank 0: {}", text_of(late.at(0))));
  return text;
}

// Of a single worker as well: nothing else shows that a host swaps.
std::string memory_evidence(const Bottleneck& b) {
  std::string text;
  for (const auto& [rank, use] : b.uses) {
    if (use.major_faults < kManyFaults) continue;
    if (use.short_of_memory() && use.pressure_known) {
      append_clause(text, format("rank {} read {:.0f} pages per second back from disk, and "
                                 "processes of its host waited for memory for {} of the time{}",
                                 rank, use.major_faults, percent_text(use.pressure),
                                 use.memory_limit > 0
                                     ? format(" (its control group may use {})",
                                              human_bytes(static_cast<uint64_t>(use.memory_limit)))
                                     : ""));
      continue;
    }
    append_clause(
        text, format("rank {} read {:.0f} pages per second back from disk: its host is short of "
                     "memory, or reads the program and the data for the first time",
                     rank, use.major_faults));
  }
  return text;
}

// The reason why the thread that reads was late.
std::string input_evidence(const Bottleneck& b) {
  const auto& uses = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  const auto use = uses.find(std::max(0, b.rank));
  if (b.cause != Cause::kInput || use == uses.end() || !use->second.input_known) return "";
  return format(
      "the thread that reads and packs batches computed for {} of the time, waited for a "
      "core for {}, and for the disk or for room for the rest",
      percent_text(use->second.input_running), percent_text(use->second.input_waiting));
}

std::string gpu_evidence(const Bottleneck& b) {
  std::string text;
  if (b.gpu.shared()) {
    text = b.gpu.other_use_known ? format("other processes computed on the GPU for {} of the time",
                                          percent_text(b.gpu.other_use))
                                 : format(
                                       "{:.1f} other processes were on the GPU on average; their "
                                       "computing time is hidden",
                                       b.gpu.others);
  }
  if (!b.gpu.slow()) return text;
  append_clause(
      text, b.gpu.clock_known
                ? format("the clock of the GPU was {} below its highest on average",
                         percent_text(b.gpu.lost_clock))
                : format("the clock of the GPU was lowered for {} of the time, by a hidden amount",
                         percent_text(b.gpu.slowed)));
  if (!b.gpu.slowed_by.empty()) text += format(" (reason given by NVML: {})", b.gpu.slowed_by);
  return text;
}

// Changes of a rank's own work at steps where the step time did not change.
std::string rank_changes_text(const Bottleneck& b) {
  constexpr size_t kMostTold = 2;
  if (!b.course) return "";
  const double near = (1 - kSameSteps) * (b.steps + 1);
  std::string text;
  size_t told = 0;
  for (const RankChange& change : b.course->rank_changes) {
    const bool known =
        std::any_of(b.course->changes.begin(), b.course->changes.end(),
                    [&](const Change& c) { return std::abs(c.step - change.step) <= near; });
    if (known || told++ >= kMostTold) continue;
    append_clause(text, format("from about step {} on, the work of rank {} took {} per step "
                               "instead of {}",
                               first_step_text(change.step), change.rank,
                               human_seconds(change.after), human_seconds(change.before)));
  }
  return text;
}

std::string network_evidence(const Bottleneck& b) {
  if (b.cause != Cause::kNetwork && b.cause != Cause::kExchangeWork) return "";
  std::string text;
  if (b.cause == Cause::kExchangeWork) {
    text = format(
        "while steps waited for the network, threads of rank 0 kept {:.1f} cores busy "
        "with encrypting, converting and adding gradients",
        b.exchange_work);
  }
  if (b.prediction) {
    append_clause(text, slow_links_text(*b.prediction, b.nominal_speed));
    if (b.prediction->latency >= kLongLatency) {
      append_clause(text, format("an empty message took {} before the first step",
                                 human_seconds(b.prediction->latency)));
    }
  }
  append_clause(text, resent_text(b));
  return text;
}

std::string evidence_of(const Bottleneck& b) {
  const TimeShares& s = b.shares;
  std::string text = changes_text(b);
  if (b.of_last_stretch) append_clause(text, shares_text(b, "since then"));
  append_clause(text, shares_text(b.whole, b.whole.shares.between > 0
                                               ? "of all time from the first step on"
                                               : "of all time in steps, evaluations and "
                                                 "checkpoints"));
  append_clause(text, cores_evidence(b));
  append_clause(text, memory_evidence(b));
  if (late_ranks(b)) {
    append_clause(text,
                  late_ranks_text(s, b.of_last_stretch ? b.course->stretches.back().uses : b.uses));
  }
  if (s.contention > 0) {
    append_clause(text, "exchanges took longer than the link needs, while all CPU cores were busy");
  }
  if (s.awaited > 0 && s.awaited >= kListedShare * s.total) {
    append_clause(text, format("for {} of the time the other ranks waited while rank 0 computed",
                               percent_text(s.awaited / std::max(1e-9, s.total))));
  }
  if (s.writing > kListedShare * s.total) {
    append_clause(text,
                  format("of the {} for checkpoints, {} is in steps that took longer while one was "
                         "written in the background",
                         percent_text(s.checkpoint / s.total), percent_text(s.writing / s.total)));
  }
  append_clause(text, network_evidence(b));
  append_clause(text, input_evidence(b));
  append_clause(text, gpu_evidence(b));
  append_clause(text, rank_changes_text(b));
  if (b.efficiency.capacity > 0) {
    append_clause(text,
                  format("compute reached {}, {} of {} in large matrix products",
                         human_flops(b.efficiency.achieved), percent_text(b.efficiency.share()),
                         human_flops(b.efficiency.capacity)));
  }
  if (!s.comparable) {
    append_clause(
        text,
        "the number of workers changed during the run, so ranks are not compared and none is "
        "called slow");
  }
  if (s.late_input_rank >= 0) {
    append_clause(
        text, format("rank {} waited {} per step longer for its input than the other ranks, and "
                     "they waited for it",
                     s.late_input_rank, human_seconds(s.late_input)));
  }
  if (s.descheduled_share >= kDescheduledShare) {
    append_clause(text,
                  format("rank {} was descheduled for {} of the time (CPU quota, stop signal or "
                         "paused VM)",
                         s.descheduled_rank, percent_text(s.descheduled_share)));
  }
  return text;
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
      "otherwise compute, if that took more than half. The same of the steps since the last "
      "change, "
      "where steps became slower; more computing time for the same work is a slower processor. A "
      "straggler also works {} longer per step than the faster "
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

bool late_ranks(const Bottleneck& b) { return b.rank >= 0 && b.cause != Cause::kInput; }

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

std::string other_time_text(const RunTime& time) {
  return format(
      "{}, {} of the {} of the run, lies between steps and in none of the parts that are "
      "measured",
      human_seconds(time.other()), percent_text(time.other() / time.wall),
      human_seconds(time.wall));
}

std::string resent_text(const Bottleneck& b) {
  if (b.resent < kManyResent) return "";
  return format(
      "{:.1f}% of the TCP segments of the host of rank {} were sent again: a link that "
      "loses packets",
      100 * b.resent, b.resent_rank);
}

VerdictText text_of(const Bottleneck& b) {
  VerdictText v = {.about = "bottleneck",
                   .verdict = id_of(b.cause),
                   .confidence = id_of(b.confidence),
                   .rule = bottleneck_rule(),
                   .advice = advice_text(b, b.advice)};
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
    append_clause(v.because, format("the largest avoidable part was {} with {}",
                                    info_of(b.largest.cause).label, percent_text(b.largest.share)));
    if (b.shares.straggler >= kMentionedShare * b.shares.total && !b.shares.late.empty()) {
      const auto& uses = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
      append_clause(v.because, late_ranks_text(b.shares, uses));
    }
    append_clause(v.advice, advice_text(b, info_of(b.largest.cause).advice));
  }
  if (late_ranks(b)) {
    std::vector<int> ranks;
    for (const LateRank& late : b.shares.late) ranks.push_back(late.rank);
    std::sort(ranks.begin(), ranks.end());
    if (ranks.empty()) ranks.push_back(b.rank);
    v.verdict = format("{}: {}", id_of(b.cause), ranks_text(ranks));
  }
  v.summary = summary_of(b);
  if (b.time.much_other()) append_clause(v.because, other_time_text(b.time));
  if (b.time.slow_start()) {
    append_clause(v.because, start_up_text(b.time));
    append_clause(v.advice, start_up_advice(b.time));
  }
  return v;
}

}  // namespace reigen
