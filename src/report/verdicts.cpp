#include "report/verdicts.h"

#include <algorithm>

#include "base/format.h"
#include "report/run_time.h"

namespace reigen {
namespace {

constexpr double kNamed = 0.15;     // of the time, for something other than computing to be named
constexpr double kNamedBusy = 0.3;  // the same where computing took more than half of the time
constexpr double kShown = 0.005;    // of the time: less is no part worth naming
constexpr double kLeastSteps = 10;  // after the first
constexpr const char* kExchange = "exchange between workers of one machine";

std::string share(double part, double whole) {
  return format("{:.0f}%", whole > 0 ? 100 * part / whole : 0);
}

struct Cause {
  const char* name;
  double seconds;
};

bool on_gpus(const RunSummary& run) {
  return !run.starts.empty() && run.starts.back().device.find("(GPU ") != std::string::npos;
}

// Whether each worker keeps something that is in the checkpoint (dist/compressor.h).
bool keeps_back(const RunSummary& run) {
  if (run.forecasts.empty()) return false;
  const std::string& method = run.forecasts.back().method;
  return method != "none" && method != "bf16" && method != "fp16";
}

std::string compute_advice(const RunSummary& run, const TimeShares& shares) {
  const Efficiency efficiency = reigen::efficiency(run, shares);
  if (shares.contended > kNamed / 2 * shares.total) {
    return "fewer workers or less other work on these machines: their cores are all busy, and "
           "exchanges wait for one; the network would not help";
  }
  if (efficiency.capacity <= 0 || efficiency.share() >= kWellUsed) {
    return "more or faster processors would shorten its steps; the network and the disk would not";
  }
  return format(
      "computing itself reaches {:.0f}% of what these processors do in large products: a larger "
      "--batch.target-tokens or a wider model would use them better; {} would do nearly as well "
      "for this one",
      100 * efficiency.share(), on_gpus(run) ? "a smaller GPU" : "fewer cores");
}

std::string advice_for(const std::string& cause, const RunSummary& run, const TimeShares& shares) {
  if (cause == "network") {
    return "a faster link between hosts, --compress auto (`reigen doctor` says what it would "
           "bring), "
           "or a larger batch (fewer exchanges for the same text)";
  }
  if (cause == kExchange && on_gpus(run)) {
    return "one worker for each GPU, so that NCCL can carry gradients, or a larger batch";
  }
  if (cause == kExchange) return "fewer workers on this machine, with more --threads each";
  if (cause == "compression") return "--compress none or bf16, which cost next to nothing to make";
  if (cause == "straggler" && shares.slowest_rank == shares.held_rank &&
      shares.held_share >= kHeld) {
    return "look at that host: its worker is not let run all the time (a CPU quota, a container's "
           "limit, a machine that is paused)";
  }
  if (cause == "straggler") {
    return "look at that host: fewer cores, a slower clock, slower memory";
  }
  if (cause == "input" && shares.input_rank >= 0) {
    return format(
        "look at how the host of rank {} reads the data: a faster disk, or a copy on the host "
        "itself; the others have theirs in time",
        shares.input_rank);
  }
  if (cause == "input") return "a faster disk for the data, or one on the host itself";
  if (cause == "evaluation") return "--eval.every further apart, or fewer --eval.sentences";
  // An evaluation is followed by a save, so that its step can be the best.
  std::string advice =
      "--eval.every further apart (each evaluation also saves), --checkpoint.every further apart, "
      "or a faster disk for the run";
  if (keeps_back(run)) {
    advice += format(
        "; with --compress {} each save also gathers over the link what every worker "
        "keeps, which a faster disk does not shorten",
        run.forecasts.back().method);
  }
  return advice;
}

std::vector<Cause> causes_of(const RunSummary& run, const TimeShares& s) {
  const bool slow = s.slowest_ratio >= kSlower;
  std::vector<Cause> causes = {{"input", s.input},
                               {crosses_network(run) ? "network" : kExchange, s.network},
                               {"straggler", slow ? s.straggler : 0},
                               {"compression", s.compression},
                               {"evaluation", s.evaluation},
                               {"checkpoint", s.checkpoint}};
  std::sort(causes.begin(), causes.end(),
            [](const Cause& a, const Cause& b) { return a.seconds > b.seconds; });
  return causes;
}

// By the part of the time that would have to be otherwise for another verdict.
const char* confidence_of(double distance) {
  return distance > 0.1 ? "high" : distance > 0.05 ? "medium" : "low";
}

std::string evidence(const RunSummary& run, const TimeShares& s) {
  std::string text = format("of the time of steps, evaluations and checkpoints, {} was computing",
                            share(s.computing(), s.total));
  for (const auto& [name, seconds] : parts_of(run, s)) {
    text += format(", {} {}", share(seconds, s.total), name);
  }
  if (s.contended > 0) text += "; the link needs less for the exchanges, and all cores were busy";
  if (s.awaited >= kShown * s.total && s.awaited > 0) {
    text += format("; for {} of the time the others waited while rank 0 computed",
                   share(s.awaited, s.total));
  }
  const Efficiency computing = efficiency(run, s);
  if (computing.capacity > 0) {
    text += format("; while computing it reached {:.1f} of {:.1f} GFLOP/s ({:.0f}%)",
                   computing.achieved / 1e9, computing.capacity / 1e9, 100 * computing.share());
  }
  if (!s.comparable) {
    text +=
        "; the number of workers changed during the run, so that the ranks' steps cannot be "
        "compared and none of them is called slow";
  }
  if (s.input_rank >= 0) {
    text += format(
        "; rank {} waited {} a step longer for its input than the others for theirs, "
        "and they for it",
        s.input_rank, human_seconds(s.input_late));
  }
  if (s.held_share >= kHeld) {
    text += format("; rank {} was not let run for {:.0f}% of the time", s.held_rank,
                   100 * s.held_share);
  }
  return text;
}

// Of the time in which steps could be taken; start-up is told apart.
Verdict limit_of_steps(const RunSummary& run, const TimeShares& s) {
  Verdict v;
  v.about = "bottleneck";
  v.rule = format(
      "the largest share of the time of steps (the first left out), evaluations and checkpoints "
      "that was spent waiting for something; computing when nothing else took {:.0f}% of it, or "
      "{:.0f}% where computing took more than half. A straggler also has to work {:.0f}% longer "
      "than "
      "the others' median, or to be kept from running for {:.0f}% of the time more than they were. "
      "Start-up is no part of this, and told where it took {:.0f}% of the run",
      100 * kNamed, 100 * kNamedBusy, 100 * (kSlower - 1), 100 * kHeld, 100 * RunTime::kSlowStart);
  const double steps = run.steps.total("steps") - 1;
  if (steps < kLeastSteps || s.total <= 0) {
    v.verdict = "cannot tell";
    v.because = format("{:.0f} steps after the first are too few; {:.0f} are needed",
                       std::max(0.0, steps), kLeastSteps);
    return v;
  }
  const std::vector<Cause> causes = causes_of(run, s);
  const Cause& largest = causes[0];
  const double part = largest.seconds / s.total;
  const double threshold = s.compute > s.total / 2 ? kNamedBusy : kNamed;
  const bool named = part >= threshold;
  const double lead = (largest.seconds - causes[1].seconds) / s.total;
  v.verdict = named ? largest.name : "compute";
  v.confidence = confidence_of(named ? std::min(lead, part - threshold) : threshold - part);
  v.because = evidence(run, s);
  if (!named && part >= kNamed / 2) {
    v.because += format("; the largest part that could be avoided was {}, {:.0f}%", largest.name,
                        100 * part);
  }
  if (v.verdict == "straggler") {
    v.verdict = format("straggler: rank {}", s.slowest_rank);
    v.because += format("; rank {} worked {:.2f} times as long as the others' median",
                        s.slowest_rank, s.slowest_ratio);
  }
  v.advice = named ? advice_for(largest.name, run, s) : compute_advice(run, s);
  return v;
}

// Or only hands over what it has.
bool compresses(const RunSummary& run) {
  if (run.forecasts.empty()) return false;
  const std::string& method = run.forecasts.back().method;
  return method != "none" && method != "bf16" && method != "fp16";
}

}  // namespace

// Workers of one machine alone wait for each other's memory and cores.
bool crosses_network(const RunSummary& run) {
  bool known = false;
  double sent = 0;
  double away = 0;
  for (const auto& [rank, fold] : run.ranks) {
    sent += fold.spans.total("sent");
    away += fold.spans.total("inter_node_bytes");
    if (!fold.last_sample) continue;
    for (const InterfaceSample& i : fold.last_sample->interfaces) {
      if (i.used && i.name != "lo") return true;
      known = known || i.used;
    }
  }
  if (known) return false;
  return sent == 0 || away > 0;  // a run of less than a second has no samples
}

std::vector<std::pair<std::string, double>> parts_of(const RunSummary& run, const TimeShares& s) {
  const std::string exchange = crosses_network(run) ? "waiting for the network" : kExchange;
  std::vector<std::pair<std::string, double>> parts = {
      {compresses(run) ? "compressing" : "handing gradients over", s.compression},
      {exchange, s.network},
      {"waiting for a slower rank", s.straggler - s.awaited},
      {"waiting for input", s.input},
      {"exchanges that waited for a processor", s.contended},
      {"evaluation", s.evaluation},
      {"standing still for checkpoints", s.checkpoint},
      {"anything else", s.other}};
  std::erase_if(parts, [&](const auto& part) { return part.second < kShown * s.total; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return parts;
}

Verdict bottleneck(const RunSummary& run, const TimeShares& s) {
  Verdict v = limit_of_steps(run, s);
  const RunTime time = run_time(run);
  if (!time.slow_start()) return v;
  v.because += "; " + start_up_told(time);
  v.advice += (v.advice.empty() ? "" : "; ") + start_up_advice(time);
  return v;
}

}  // namespace reigen
