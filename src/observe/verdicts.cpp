#include "observe/verdicts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "observe/run_time.h"

namespace reigen {
namespace {

constexpr double kNamed = 0.15;     // of the time, for something other than computing to be named
constexpr double kNamedBusy = 0.3;  // the same where computing took more than half of the time
constexpr double kSlower = 1.15;    // than the others' median, to be called a straggler
constexpr double kHeld = 0.1;       // of the time not let run, beyond twice the others' median
constexpr double kBusyCores = 90;   // percent of all cores, for a wait to be for a processor
constexpr double kLinkMargin = 2;   // times what the link was measured to need
constexpr double kShown = 0.005;    // of the time: less is no part worth naming
constexpr double kLeastSteps = 10;  // after the first
constexpr double kSameSteps = 0.9;  // of the most any rank took part in, to be compared with it
constexpr double kSameSpeed = 0.8;  // of the fastest attempt's capacity, to be the same machines
constexpr const char* kExchange = "exchange between workers of one machine";

std::string share(double part, double whole) {
  return format("{:.0f}%", whole > 0 ? 100 * part / whole : 0);
}

double span_of(const StepRecord& record, const char* name) {
  for (const auto& [span, seconds] : record.spans) {
    if (span == name) return seconds;
  }
  return 0;
}

// What a rank did itself, waiting for nobody.
double own_work(const RankFold& rank) {
  const RolledTable& t = rank.spans;
  return t.total("seconds") - t.total("communication");
}

bool same_workers(const RunFold& run) {
  return std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
    return start.workers == run.starts[0].workers;
  });
}

// A run may be continued with another number of workers, and steps of other workers are others. Who
// is only behind with telling of the same ones can be compared.
bool ranks_compare(const RunFold& run) {
  if (!run.starts.empty() && same_workers(run)) return true;
  double least = INFINITY;
  double most = 0;
  for (const auto& [rank, fold] : run.ranks) {
    least = std::min(least, fold.spans.total("steps"));
    most = std::max(most, fold.spans.total("steps"));
  }
  return least >= kSameSteps * most;
}

void find_slowest(const RunFold& run, TimeShares& shares) {
  std::vector<double> works;
  std::vector<double> held;
  double slowest = -1;
  for (const auto& [rank, fold] : run.ranks) {
    const double steps = fold.spans.total("steps");
    if (steps == 0) continue;
    works.push_back(own_work(fold) / steps);
    held.push_back(fold.spans.total("held") / std::max(1e-9, fold.spans.total("seconds")));
    if (works.back() > slowest) {
      slowest = works.back();
      shares.slowest_rank = rank;
    }
    if (shares.held_rank < 0 || held.back() > shares.held_share) {
      shares.held_rank = rank;
      shares.held_share = held.back();
    }
  }
  if (works.size() < 2) return;
  works.erase(std::max_element(works.begin(), works.end()));
  shares.slowest_ratio = slowest / std::max(1e-9, median(works));
  held.erase(std::max_element(held.begin(), held.end()));
  // Where all are held alike (one container's quota for all) none is the straggler.
  if (shares.held_share < kHeld + 2 * median(held)) return;
  shares.slowest_rank = shares.held_rank;
  shares.slowest_ratio = std::max(shares.slowest_ratio, kSlower);
  shares.held = true;
}

double each_step(const RankFold& rank, double seconds) {
  return seconds / std::max(1.0, rank.spans.total("steps"));
}

// The slowest rank may be late because its input is. Then what the others waited for is a disk, and
// no processor. Who is not let run reads late too, but not because of a disk.
void find_late_input(const RunFold& run, TimeShares& shares) {
  if (shares.slowest_ratio < kSlower || shares.held) return;
  const RankFold& slowest = run.ranks.at(shares.slowest_rank);
  std::vector<double> works;
  std::vector<double> inputs;
  for (const auto& [rank, fold] : run.ranks) {
    if (rank == shares.slowest_rank || fold.spans.total("steps") == 0) continue;
    works.push_back(each_step(fold, own_work(fold)));
    inputs.push_back(each_step(fold, fold.spans.total("input")));
  }
  const double work = each_step(slowest, own_work(slowest)) - median(works);
  const double input = each_step(slowest, slowest.spans.total("input")) - median(inputs);
  shares.input_late = std::clamp(input, 0.0, work);
  if (shares.input_late > work / 2) shares.input_rank = shares.slowest_rank;
}

// Rank 0 waited for the network and for others. How much for whom the ranks told each other in
// every step: all leave an exchange together, so who waited least came last.
void split_waiting(const RunFold& run, double waited, const StepRecord& warm, TimeShares& shares) {
  shares.comparable = ranks_compare(run);
  if (shares.comparable) find_slowest(run, shares);
  shares.network = waited;
  if (run.ranks.size() < 2) return;
  const RolledTable& mine = run.ranks.at(0).spans;
  const double warm_least = warm.communication ? warm.communication->least : 0;
  shares.network = std::clamp(mine.total("least") - warm_least, 0.0, waited);
  shares.straggler = waited - shares.network;
  const bool slow = shares.slowest_ratio >= kSlower;
  find_late_input(run, shares);
  const double late_input = shares.input_late * mine.total("steps");
  if (slow && shares.slowest_rank == 0) {
    // It did not wait; what the others waited for it is work of its own, or its input.
    std::vector<double> waits;
    for (const auto& [rank, fold] : run.ranks) {
      if (rank == 0 || fold.spans.total("steps") == 0) continue;
      const double both = std::min(1.0, mine.total("steps") / fold.spans.total("steps"));
      waits.push_back(fold.spans.total("communication") * both);
    }
    shares.awaited = std::clamp(median(waits) - waited - late_input, 0.0, shares.compute);
    shares.compute -= shares.awaited;
    shares.straggler += shares.awaited;
  } else {
    const double late = std::min(shares.straggler, late_input);
    shares.straggler -= late;
    shares.input += late;
  }
  // A worker that is not let run is late also within an exchange, and then everybody waits.
  if (slow && shares.slowest_rank == shares.held_rank) {
    const double late = std::min(shares.network, shares.held_share * mine.total("seconds"));
    shares.network -= late;
    shares.straggler += late;
  }
}

// What exchanges took beyond what the link needs for their bytes, while all cores were busy. Who
// waits for a link leaves a core idle; where none is, the wait is for a processor.
void tell_contention(const RunFold& run, TimeShares& shares) {
  const auto first = run.ranks.find(0);
  if (run.forecasts.empty() || first == run.ranks.end()) return;
  const ForecastRecord& link = run.forecasts.back();
  const RolledTable& machine = first->second.machine;
  const double sampled = machine.total("seconds");
  if (link.bandwidth <= 0 || sampled <= 0 || machine.total("cpu") / sampled < kBusyCores) return;
  const RolledTable& mine = first->second.spans;
  // Without its latency: measured on busy cores, that is mostly waiting for one.
  const double needed = mine.total("sent") / link.bandwidth;
  shares.contended = std::max(0.0, shares.network - kLinkMargin * needed);
  shares.network -= shares.contended;
}

bool same_machines(const RunFold& run) {
  double fastest = 0;
  for (const StartRecord& start : run.starts) fastest = std::max(fastest, start.capacity);
  return same_workers(run) &&
         std::all_of(run.starts.begin(), run.starts.end(), [&](const StartRecord& start) {
           return start.capacity >= kSameSpeed * fastest;
         });
}

struct Cause {
  const char* name;
  double seconds;
};

bool on_gpus(const RunFold& run) {
  return !run.starts.empty() && run.starts.back().device.find("(GPU ") != std::string::npos;
}

// Whether each worker keeps something that is in the checkpoint (dist/compressor.h).
bool keeps_back(const RunFold& run) {
  if (run.forecasts.empty()) return false;
  const std::string& method = run.forecasts.back().method;
  return method != "none" && method != "bf16" && method != "fp16";
}

std::string compute_advice(const RunFold& run, const TimeShares& shares) {
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

std::string advice_for(const std::string& cause, const RunFold& run, const TimeShares& shares) {
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

std::vector<Cause> causes_of(const RunFold& run, const TimeShares& s) {
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

std::string evidence(const RunFold& run, const TimeShares& s) {
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
Verdict limit_of_steps(const RunFold& run, const TimeShares& s) {
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

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Workers of one machine alone wait for each other's memory and cores.
bool crosses_network(const RunFold& run) {
  bool known = false;
  double sent = 0;
  double away = 0;
  for (const auto& [rank, fold] : run.ranks) {
    sent += fold.spans.total("sent");
    away += fold.spans.total("sent_away");
    if (!fold.last_sample) continue;
    for (const InterfaceSample& i : fold.last_sample->interfaces) {
      if (i.used && i.name != "lo") return true;
      known = known || i.used;
    }
  }
  if (known) return false;
  return sent == 0 || away > 0;  // a run of less than a second has no samples
}

Efficiency efficiency(const RunFold& run, const TimeShares& shares) {
  Efficiency e;
  if (run.starts.empty() || shares.computing() <= 0 || !same_machines(run)) return e;
  const StartRecord& start = run.starts.back();
  const StepRecord warm = run.first_step.value_or(StepRecord{});
  const double source = run.steps.total("source_tokens") - static_cast<double>(warm.source_tokens);
  const double target = run.steps.total("target_tokens") - static_cast<double>(warm.target_tokens);
  e.achieved =
      (source * start.source_token_flops + target * start.target_token_flops) / shares.computing();
  e.capacity = start.capacity;
  return e;
}

TimeShares time_shares(const RunFold& run) {
  TimeShares shares;
  const auto first = run.ranks.find(0);
  if (first == run.ranks.end()) return shares;
  const RolledTable& t = first->second.spans;
  const StepRecord warm = run.first_step.value_or(StepRecord{});  // pays for warming up
  auto spent = [&](const char* name) { return std::max(0.0, t.total(name) - span_of(warm, name)); };
  shares.input = spent("input");
  shares.compute = spent("forward") + spent("loss") + spent("backward") + spent("optimizer");
  shares.compression = spent("compression");
  split_waiting(run, spent("communication"), warm, shares);
  tell_contention(run, shares);
  for (const EvaluationRecord& e : run.evaluations) shares.evaluation += e.seconds;
  for (const CheckpointRecord& c : run.checkpoints) shares.checkpoint += c.held_seconds;
  const double steps = std::max(0.0, t.total("seconds") - warm.seconds);
  shares.other = std::max(0.0, steps - shares.input - shares.compute - shares.compression -
                                   shares.network - shares.straggler - shares.contended);
  shares.total = steps + shares.evaluation + shares.checkpoint;
  return shares;
}

std::vector<std::pair<std::string, double>> parts_of(const RunFold& run, const TimeShares& s) {
  const std::string exchange = crosses_network(run) ? "waiting for the network" : kExchange;
  std::vector<std::pair<std::string, double>> parts = {
      {"compressing", s.compression},
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

Verdict bottleneck(const RunFold& run, const TimeShares& s) {
  Verdict v = limit_of_steps(run, s);
  const RunTime time = run_time(run);
  if (!time.slow_start()) return v;
  v.because += "; " + start_up_told(time);
  v.advice += (v.advice.empty() ? "" : "; ") + start_up_advice(time);
  return v;
}

}  // namespace reigen
