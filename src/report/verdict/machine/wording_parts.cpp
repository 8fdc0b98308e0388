// The sentences about changes along a run, about who had the cores, and about links.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/verdict/machine/thresholds.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

constexpr double kBytesPerMegabit = 125'000;

std::string cores_text(double cores) { return format("{:.1f}", cores); }

std::string short_seconds(double seconds) {
  return seconds < 0.00995  ? format("{:.1f} ms", 1000 * seconds)
         : seconds < 0.9995 ? format("{:.0f} ms", 1000 * seconds)
                            : human_seconds(seconds);
}

std::string core_word(double cores) { return cores == 1 ? "core" : "cores"; }

// "core 1", "cores 0-1"
std::string core_names(const WorkerUse& use) {
  const bool one = use.list.find_first_of(",-") == std::string::npos;
  return format("{} {}", one ? "core" : "cores", use.list);
}

// "its only core (core 1)", "its 2 cores (cores 0-1)"
std::string its_cores(const WorkerUse& use) {
  return use.cores == 1 ? format("its only core ({})", core_names(use))
                        : format("its {:g} cores ({})", use.cores, core_names(use));
}

// "other processes had 1.0 of its 2 cores (cores 0-1)"
std::string others_text(const WorkerUse& use) {
  return format("other processes had {} of {}", cores_text(use.others), its_cores(use));
}

std::string reason_text(SlowReason reason, const WorkerUse& use) {
  switch (reason) {
    case SlowReason::kQuota:
      return use.quota > 0 ? format("it was descheduled: its CPU quota is {:g} cores", use.quota)
                           : "it was descheduled (CPU quota, stop signal or paused VM)";
    case SlowReason::kOthers:
      return others_text(use);
    case SlowReason::kSharedCores:
      return sharing_text(use);
    case SlowReason::kFewerThreads:
      return format("it computes with {:.0f} {}, fewer than others", use.threads,
                    use.threads == 1 ? "thread" : "threads");
    case SlowReason::kSteal:
      return format("the hypervisor gave {} of its cores to others", cores_text(use.stolen));
    case SlowReason::kClock:
      return "the clock of its cores is lower than before";
    case SlowReason::kFewerCores:
      return format("it may use {:g} {} ({}), fewer than others", use.cores, core_word(use.cores),
                    core_names(use));
    case SlowReason::kMemory:
      return format("it was short of memory: {:.0f} pages per second came from disk",
                    use.major_faults);
    case SlowReason::kGpuOthers:
      return "other processes compute on the GPUs of its host";
    case SlowReason::kGpuSlowed:
      return "a GPU of its host does not reach its clock (temperature or power)";
    case SlowReason::kHardware:
      return use.stolen > 0.05
                 ? format("the hypervisor gave {} of its cores to others", cores_text(use.stolen))
                 : "no other process had its cores: a slower clock, slower memory, or another "
                   "virtual machine that this one cannot see";
    case SlowReason::kUnknown:
      break;
  }
  return "the processes that had its cores are unknown: too few samples, or hidden by the system";
}

}  // namespace

const char* id_of(SlowReason reason) {
  switch (reason) {
    case SlowReason::kQuota:
      return "quota";
    case SlowReason::kOthers:
      return "other processes";
    case SlowReason::kSharedCores:
      return "shared cores";
    case SlowReason::kFewerThreads:
      return "fewer threads";
    case SlowReason::kFewerCores:
      return "fewer cores";
    case SlowReason::kSteal:
      return "steal";
    case SlowReason::kClock:
      return "lowered clock";
    case SlowReason::kMemory:
      return "memory";
    case SlowReason::kGpuOthers:
      return "other processes on the GPU";
    case SlowReason::kGpuSlowed:
      return "lowered clock of the GPU";
    case SlowReason::kHardware:
      return "hardware";
    case SlowReason::kUnknown:
      break;
  }
  return "unknown";
}

std::string mbit_text(double bytes_per_second) {
  const double mbit = bytes_per_second / kBytesPerMegabit;
  return mbit < 9.95 ? format("{:.1f} Mbit/s", mbit)
                     : format("{} Mbit/s", with_commas(static_cast<uint64_t>(std::lround(mbit))));
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 8;
  if (ranks.size() == 1) return format("rank {}", ranks[0]);
  std::string text = "ranks ";
  const size_t named = std::min(ranks.size(), kMostNamed);
  for (size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == ranks.size();
    text += format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (named < ranks.size()) text += format(" and {} more", ranks.size() - named);
  return text;
}

std::string sharing_text(const WorkerUse& use) {
  if (use.sharing.size() < 2) {
    return format("it runs more threads than the {:g} {} it may use ({})", use.cores,
                  core_word(use.cores), core_names(use));
  }
  return format("{} share {:g} {} ({})", ranks_text(use.sharing), use.cores, core_word(use.cores),
                core_names(use));
}

std::string text_of(const WorkerUse& use) {
  if (!use.known) return "unknown: too few samples, or a log of version 0.1";
  std::string text = format("this worker used {} of {}", cores_text(use.own), its_cores(use));
  if (use.quota > 0) text += format(" under a CPU quota of {:g}", use.quota);
  if (use.sharing.size() > 1) {
    text += format(", other workers of the job {}", cores_text(use.siblings));
  }
  text += format(", other processes {}", cores_text(use.others));
  text += use.denied_known ? format(
                                 ", and its threads were ready but without a core for {:.0f}% "
                                 "of the time",
                                 100 * use.denied)
                           : ", and the system hides how long its threads waited for a core";
  if (use.stolen > 0.005) {
    text += format(", and the hypervisor gave {:.2f} of its cores to others", use.stolen);
  }
  if (use.major_faults >= 1) {
    text += format(", and {:.0f} pages per second came from disk", use.major_faults);
  }
  return text;
}

std::string late_ranks_text(const TimeShares& shares, const std::map<int, WorkerUse>& uses) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(shares.late.size(), kMostNamed); ++i) {
    const LateRank& late = shares.late[i];
    const auto use = uses.find(late.rank);
    if (!text.empty()) text += "; ";
    if (late.reason == SlowReason::kQuota && late.ratio < kSlowRankInRun) {
      text += format("rank {} was late", late.rank);
    } else {
      text +=
          format("rank {} worked {:.2f} times as long as the faster ranks", late.rank, late.ratio);
    }
    text += format(": {}", reason_text(late.reason, use == uses.end() ? WorkerUse{} : use->second));
  }
  if (shares.late.size() > kMostNamed) {
    text += format("; so did {}", counted(shares.late.size() - kMostNamed, "other rank"));
  }
  return text;
}

std::string text_of(const Change& c) {
  std::string text = format("from step {} on", with_commas(static_cast<uint64_t>(c.step)));
  if (c.begin >= 0) text += format(" ({} after the start)", human_seconds(c.begin));
  text += format(" a step took {} instead of {}", short_seconds(c.after), short_seconds(c.before));
  if (c.cause != Cause::kUnknown) {
    text +=
        format("; {:.0f}% of the difference was {} ({} before, {} after)", 100 * c.part_share,
               info_of(c.cause).label, short_seconds(c.part_before), short_seconds(c.part_after));
  }
  if (c.attempt > 0) {
    return text + format("; attempt {} began there", c.attempt);
  }
  const bool own_work = c.cause == Cause::kStraggler || c.cause == Cause::kCompute ||
                        c.cause == Cause::kInterference || c.cause == Cause::kSharedCores ||
                        c.cause == Cause::kQuota || c.cause == Cause::kSteal ||
                        c.cause == Cause::kMemory || c.cause == Cause::kGpuShared ||
                        c.cause == Cause::kGpuSlowed;
  if (!own_work || (!c.slower() && c.reason == SlowReason::kUnknown)) return text;
  const WorkerUse& use = c.slower() ? c.use_after : c.use_before;
  const std::string who = c.rank >= 0 ? format("rank {}", c.rank) : "";
  if (!who.empty()) {
    text += format("; the work of {} took {}", who, c.slower() ? "longer" : "less long");
  }
  return text + format("; {}{}", c.slower() ? "" : "before, ", reason_text(c.reason, use));
}

std::string slow_links_text(const PredictionRecord& p, double nominal_speed) {
  const bool any_one_way =
      std::any_of(p.links.begin(), p.links.end(), [&](const MeasuredLink& link) {
        return std::any_of(p.links.begin(), p.links.end(), [&](const MeasuredLink& opposite) {
          return opposite.from == link.to && opposite.to == link.from &&
                 link.bandwidth < kSlowLinkShare * opposite.bandwidth;
        });
      });
  std::string text;
  for (const MeasuredLink& link : p.links) {
    const auto opposite = std::find_if(p.links.begin(), p.links.end(), [&](const MeasuredLink& l) {
      return l.from == link.to && l.to == link.from;
    });
    const bool one_way =
        opposite != p.links.end() && link.bandwidth < kSlowLinkShare * opposite->bandwidth;
    const bool below = nominal_speed > 0 && link.bandwidth < kSlowLinkShare * nominal_speed;
    if (!one_way && (!below || any_one_way)) continue;
    text += format("{}{} were measured from rank {} to rank {}", text.empty() ? "" : "; ",
                   mbit_text(link.bandwidth), link.from, link.to);
    if (one_way)
      text += format(", and {} in the opposite direction", mbit_text(opposite->bandwidth));
    if (below) text += format(", where the interface has a nominal {}", mbit_text(nominal_speed));
  }
  if (!text.empty()) text += ": check whether a port is limited";
  return text;
}

}  // namespace reigen
