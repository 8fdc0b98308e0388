#include "observe/verdicts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"

namespace reigen {
namespace {

constexpr double kNamed = 0.15;     // of the time, for something other than computing to be named
constexpr double kSlower = 1.15;    // than the others' median, to be called a straggler
constexpr double kHeld = 0.1;       // of the time not let run, beyond twice the others' median
constexpr double kIdle = 0.3;       // of the capacity, below which computing itself is inefficient
constexpr double kBusyCores = 90;   // percent of all cores, for a wait to be for a processor
constexpr double kLinkMargin = 2;   // times what the link was measured to need
constexpr double kLeastSteps = 10;  // after the first
constexpr double kSameSteps = 0.9;  // of the most any rank took part in, to be compared with it
constexpr double kSameSpeed = 0.8;  // of the fastest attempt's capacity, to be the same machines
constexpr double kWorse = 0.01;     // of the loss
constexpr double kTrainedGain = 0.005;
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
  if (slow && shares.slowest_rank == 0) {
    // It did not wait; what the others waited for it is work of its own.
    std::vector<double> waits;
    for (const auto& [rank, fold] : run.ranks) {
      if (rank == 0 || fold.spans.total("steps") == 0) continue;
      const double both = std::min(1.0, mine.total("steps") / fold.spans.total("steps"));
      waits.push_back(fold.spans.total("communication") * both);
    }
    shares.awaited = std::clamp(median(waits) - waited, 0.0, shares.compute);
    shares.compute -= shares.awaited;
    shares.straggler += shares.awaited;
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

// Workers of one machine alone: what they wait for is each other's memory and cores.
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

std::string compute_advice(const Efficiency& efficiency, const TimeShares& shares) {
  if (shares.contended > kNamed / 2 * shares.total) {
    return "fewer workers or less other work on these machines: their cores are all busy, and "
           "exchanges wait for one; the network would not help";
  }
  if (efficiency.capacity <= 0 || efficiency.share() >= kIdle) {
    return "more or faster processors would shorten it; the network and the disk would not";
  }
  return format(
      "computing itself reaches {:.0f}% of what these processors do in large products: a larger "
      "--batch.target-tokens or a wider model would use them better; fewer cores would do nearly "
      "as "
      "well for this one",
      100 * efficiency.share());
}

std::string advice_for(const std::string& cause, const TimeShares& shares) {
  if (cause == "network") {
    return "a faster link between hosts, --compress auto (`reigen doctor` says what it would "
           "bring), "
           "or a larger batch (fewer exchanges for the same text)";
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
  if (cause == "input") return "a faster disk for the data, or one on the host itself";
  if (cause == "evaluation") return "--eval.every further apart, or fewer --eval.sentences";
  return "--checkpoint.every further apart, or a faster disk for the run";
}

}  // namespace

Points validation_losses(const RunFold& run) {
  Points points;
  for (const EvaluationRecord& e : run.evaluations) {
    if (std::isfinite(e.nll)) points.emplace_back(static_cast<double>(e.step), e.nll);
  }
  return points;
}

Points training_losses(const RunFold& run) { return run.steps.ratio("nll", "finite"); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
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

Verdict bottleneck(const RunFold& run, const TimeShares& s) {
  Verdict v;
  v.about = "bottleneck";
  v.rule = format(
      "the largest share of the wall time, the first step left out, that was spent waiting for "
      "something; computing when nothing else took {:.0f}% of it. A straggler also has to work "
      "{:.0f}% longer than the others' median, or to be kept from running for {:.0f}% of the time "
      "more than they were",
      100 * kNamed, 100 * (kSlower - 1), 100 * kHeld);
  const double steps = run.steps.total("steps") - 1;
  if (steps < kLeastSteps || s.total <= 0) {
    v.verdict = "cannot tell";
    v.because = format("{:.0f} steps after the first are too few; {:.0f} are needed",
                       std::max(0.0, steps), kLeastSteps);
    return v;
  }
  const bool slow = s.slowest_ratio >= kSlower;
  std::array causes = {Cause{"input", s.input},
                       Cause{crosses_network(run) ? "network" : kExchange, s.network},
                       Cause{"straggler", slow ? s.straggler : 0},
                       Cause{"compression", s.compression},
                       Cause{"evaluation", s.evaluation},
                       Cause{"checkpoint", s.checkpoint}};
  std::sort(causes.begin(), causes.end(),
            [](const Cause& a, const Cause& b) { return a.seconds > b.seconds; });
  const bool named = causes[0].seconds >= kNamed * s.total;
  v.verdict = named ? causes[0].name : "compute";
  const double best = named ? causes[0].seconds : s.compute;
  const double next = named ? causes[1].seconds : causes[0].seconds;
  const double lead = (best - next) / s.total;
  v.confidence = lead > 0.3 ? "high" : lead > 0.1 ? "medium" : "low";
  v.because = format(
      "of the time, {} was computing, {} compressing, {} {}, {} waiting for a slower rank, {} for "
      "input, {} evaluation, {} standing still for checkpoints, {} anything else",
      share(s.compute, s.total), share(s.compression, s.total), share(s.network, s.total),
      crosses_network(run) ? "waiting for the network" : kExchange, share(s.straggler, s.total),
      share(s.input, s.total), share(s.evaluation, s.total), share(s.checkpoint, s.total),
      share(s.other, s.total));
  if (s.contended > 0) {
    v.because += format(
        "; {} went to exchanges that waited for a processor: the link needs less for them, and all "
        "cores were busy",
        share(s.contended, s.total));
  }
  const Efficiency computing = efficiency(run, s);
  if (computing.capacity > 0) {
    v.because +=
        format("; while computing it reached {:.1f} of {:.1f} GFLOP/s ({:.0f}%)",
               computing.achieved / 1e9, computing.capacity / 1e9, 100 * computing.share());
  }
  if (s.awaited > 0) {
    v.because += format(
        "; rank 0 itself computed in {} of the time, while the others waited for it "
        "in {}",
        share(s.computing(), s.total), share(s.awaited, s.total));
  }
  if (!s.comparable) {
    v.because +=
        "; the number of workers changed during the run, so that the ranks' steps cannot "
        "be compared and none of them is called slow";
  }
  if (v.verdict == "straggler") {
    v.verdict = format("straggler: rank {}", s.slowest_rank);
    v.because += format("; rank {} worked {:.2f} times as long as the others' median",
                        s.slowest_rank, s.slowest_ratio);
  }
  if (s.held_share >= kHeld) {
    v.because += format("; rank {} was not let run for {:.0f}% of the time", s.held_rank,
                        100 * s.held_share);
  }
  v.advice = named ? advice_for(causes[0].name, s) : compute_advice(computing, s);
  return v;
}

Verdict overfitting(const RunFold& run) {
  Verdict v;
  v.about = "overfitting";
  v.rule = format(
      "yes when validation loss was above its best by more than {:.0f}% in the last two "
      "evaluations "
      "or more, while training loss went on falling since that best",
      100 * kWorse);
  const Points valid = validation_losses(run);
  const Points train = training_losses(run);
  if (valid.size() < 3 || train.empty()) {
    v.verdict = "cannot tell";
    v.because = format("{} evaluations are too few; 3 are needed", valid.size());
    return v;
  }
  auto train_at = [&](double step) {
    double value = train.front().second;
    for (const auto& [at, loss] : train) {
      if (at <= step + static_cast<double>(run.steps.width())) value = loss;
    }
    return value;
  };
  const auto best = std::min_element(
      valid.begin(), valid.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto later = valid.end() - best - 1;
  // A single good evaluation soon after the best does not undo what came since.
  const auto worse =
      std::find_if(valid.rbegin(), valid.rend(),
                   [&](const auto& point) { return point.second <= best->second * (1 + kWorse); }) -
      valid.rbegin();
  const double before = train_at(best->first);
  const double now = train_at(valid.back().first);
  const double gap = valid.back().second - now;
  const std::string figures = format(
      "validation loss is {:.3f} and was {:.3f} at best, at step {:.0f}; training loss (with "
      "dropout) went from {:.3f} there to {:.3f}; the gap is {:+.3f}",
      valid.back().second, best->second, best->first, before, now, gap);
  v.because = figures;
  if (worse >= 2 && now < before) {
    v.verdict = format("yes, since step {:.0f}", best->first);
    v.confidence = worse >= 4 ? "high" : "medium";
    v.advice =
        "the checkpoint best-loss is the one to use; more data, more dropout or a smaller "
        "model would help, more steps will not";
  } else if (later == 0) {
    v.verdict = "no";
    v.confidence = "high";
  } else {
    v.verdict = "no";
    v.confidence = later >= 3 ? "low" : "medium";
  }
  return v;
}

Verdict trained(const RunFold& run) {
  Verdict v;
  v.about = "trained";
  v.rule = format(
      "a curve c + a * step^-b through the validation losses of the last half of the run; "
      "fully trained when another 50% of the steps is expected to gain less than {:.1f}% of the "
      "loss, or when the model overfits",
      100 * kTrainedGain);
  const Points valid = validation_losses(run);
  const auto curve = fit_loss_curve(valid);
  if (overfitting(run).verdict.starts_with("yes")) {
    v.verdict = "yes, and past its best";
    v.confidence = overfitting(run).confidence;
    v.because = "it overfits: more steps make validation loss worse";
    return v;
  }
  if (!curve) {
    v.verdict = "cannot tell";
    v.because = format("{} evaluations are too few to fit a curve; {} are needed", valid.size(),
                       kLeastEvaluations);
    return v;
  }
  const double last = valid.back().second;
  const ExpectedGain& half = curve->gains[1];
  for (const ExpectedGain& gain : curve->gains) {
    v.because += format(
        "{}another {:.0f}% of the steps: {:.3f} less loss (80% interval {:.3f} to "
        "{:.3f})",
        v.because.empty() ? "" : "; ", 100 * gain.more, gain.gain, gain.low, gain.high);
  }
  v.because += "; as long as the learning rate goes on as its schedule says";
  const double limit = kTrainedGain * last;
  v.verdict = half.gain < limit ? "yes" : "no, still improving";
  const bool sure = half.gain < limit ? half.high < limit : half.low > limit;
  v.confidence = sure ? "high" : "medium";
  if (half.low < 0 && half.high > 2 * limit) v.confidence = "low";
  if (half.gain >= limit) v.advice = "train on with `reigen train --run RUN --max-steps N`";
  return v;
}

}  // namespace reigen
