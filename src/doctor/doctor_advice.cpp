#include "doctor/doctor_advice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/format.h"
#include "train/workers/agreements.h"

namespace reigen {
namespace {

constexpr double kSlowWorker = 1.3;     // times the median
constexpr double kMuchSkew = 5;         // seconds
constexpr double kFarBelowClaim = 0.5;  // of what the interface says it carries
constexpr double kFarBelowOthers = 0.5;

// The median, of two the lower.
double usual_compute(const Examination& e) {
  std::vector<double> values;
  for (const WorkerFacts& w : e.workers) values.push_back(w.compute);
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

const WorkerFacts& slowest_worker(const Examination& e) {
  return *std::max_element(
      e.workers.begin(), e.workers.end(),
      [](const WorkerFacts& a, const WorkerFacts& b) { return a.compute < b.compute; });
}

// A share takes a part that more cores do not shorten and one that they do; two measurements tell
// both.
void advise_of_cores(Examination& e, const ParameterLayout& layout) {
  constexpr double kHardlySlower = 1.1;
  if (e.half.threads == 0) return;
  const Measured& m = e.preflight.measured;
  const double now = e.forecasts[0].seconds;
  const double whole = m.compute.forward + m.compute.backward;
  const double gained = std::max(0.0, e.half.seconds - whole);
  auto step_of = [&](double share) {
    Measured other = m;
    const double scale = std::max(share, 0.01 * whole) / whole;
    other.compute.forward *= scale;
    other.compute.backward *= scale;
    other.compute.last_backward *= scale;
    return forecast(other, layout, e.setting).seconds;
  };
  const double fewer = step_of(e.half.seconds);
  if (fewer < kHardlySlower * now) {
    e.advice.push_back({format("half the cores (--threads {}), which cost less", e.half.threads),
                        fewer, now / fewer});
  }
  // From so many to twice as many saves half of what the step before saved.
  const double more = step_of(whole - gained / 2);
  if (now / more > 1.05) {
    e.advice.push_back({format("machines with twice the cores (--threads {})", 2 * e.half.of), more,
                        now / more, true});
  }
}

// Fewer of them, without who is slow or without a network, and more of them.
template <class Add>
void advise_of_workers(const Examination& e, const ParameterLayout& layout, Add add) {
  const Measured& m = e.preflight.measured;
  auto shared_by = [&](int workers, double share) {  // so many, who take as long for their shares
    Measured other = simulate(m, workers, 0, 0, false);
    const double scale = share / (m.compute.forward + m.compute.backward);
    other.compute.forward *= scale;
    other.compute.backward *= scale;
    other.compute.last_backward *= scale;
    return other;
  };
  const double usual = usual_compute(e) - m.compute.optimizer;
  const WorkerFacts& slowest = slowest_worker(e);
  if (m.workers > 2 && slowest.compute > kSlowWorker * usual_compute(e)) {
    add(format("without {}", rank_and_host(slowest.rank, slowest.host)),
        forecast(shared_by(m.workers - 1, usual), layout, e.setting).seconds, 1, false);
  }
  // Alone a worker computes all shares, and nobody waits.
  add("one worker of these", forecast(shared_by(1, usual), layout, e.setting).seconds, 1, false);
  if (e.machines < 2) return;  // more workers would only share its cores
  const int more = 2 * m.workers;
  const Measured twice = simulate(m, more, 0, 0, false);
  add(format("{} such workers, with --compress auto", more),
      forecast(twice, layout, choose(twice, layout)).seconds, 1, true);
}

// A machine whose every link is far slower than links are here: its port, not the network.
void warn_of_slow_ports(Examination& e) {
  std::map<int, double> best;  // by rank
  for (const PairLink& link : e.links) {
    for (int rank : {link.from, link.to}) best[rank] = std::max(best[rank], link.bandwidth);
  }
  if (best.size() < 3) return;
  std::vector<double> all;
  for (const auto& [rank, bandwidth] : best) all.push_back(bandwidth);
  std::sort(all.begin(), all.end());
  const double usual = all[all.size() / 2];
  for (const auto& [rank, bandwidth] : best) {
    if (bandwidth >= kFarBelowOthers * usual) continue;
    e.warnings.push_back(
        format("{} has {:.0f} Mbit/s at most to any other, {:.0f} are usual here: is its port "
               "capped?",
               rank_and_host(rank, e.workers[static_cast<size_t>(rank)].host), bandwidth / kMegabit,
               usual / kMegabit));
  }
}

}  // namespace

void name_straggler(Examination& e) {
  const double usual = usual_compute(e);
  const WorkerFacts& w = slowest_worker(e);
  if (e.verdict.bottleneck != "compute" || w.compute <= kSlowWorker * usual) return;
  e.verdict = {"straggler",
               format("straggler: {} computes its share in {}, the others in {}, and everybody "
                      "waits for it in a step of {}",
                      rank_and_host(w.rank, w.host), human_seconds(w.compute), human_seconds(usual),
                      human_seconds(e.forecasts[0].seconds))};
}

void warn_of_hosts(Examination& e, double bytes_needed) {
  const double usual = usual_compute(e);
  for (const WorkerFacts& w : e.workers) {
    const std::string who = rank_and_host(w.rank, w.host);
    if (w.compute > kSlowWorker * usual) {
      e.warnings.push_back(format(
          "{} computes its share in {}, the others in {}: everybody waits for it; take it out, or "
          "give it fewer threads of other work",
          who, human_seconds(w.compute), human_seconds(usual)));
    }
    if (!w.interface_note.empty()) {
      e.warnings.push_back(format("{}: {}; is --interface the right one?", who, w.interface_note));
    }
    if (std::abs(w.clock_ahead) > kMuchSkew) {
      e.warnings.push_back(format(
          "the clock of {} is {} {} rank 0's: logs of the two do not fit together; set it", who,
          human_seconds(std::abs(w.clock_ahead)), w.clock_ahead > 0 ? "ahead of" : "behind"));
    }
    if (w.disk_rate > 0 && w.disk_rate < bytes_needed) {
      e.warnings.push_back(format(
          "the disk of {} reads {}/s but its share needs {}/s: copy the data to a faster one", who,
          human_bytes(static_cast<uint64_t>(w.disk_rate)),
          human_bytes(static_cast<uint64_t>(bytes_needed))));
    }
  }
  warn_of_slow_ports(e);
  for (const PairLink& link : e.links) {
    for (int rank : {link.from, link.to}) {
      const WorkerFacts& w = e.workers[static_cast<size_t>(rank)];
      const double claimed = static_cast<double>(w.speed) * kMegabit;
      if (claimed > 0 && link.bandwidth < kFarBelowClaim * claimed) {
        e.warnings.push_back(format(
            "{} of {} says it carries {} Mbit/s, but {:.0f} Mbit/s were measured to rank {}: is "
            "the port capped, or is it the wrong interface (--interface)?",
            w.interface, rank_and_host(w.rank, w.host), with_commas(static_cast<uint64_t>(w.speed)),
            link.bandwidth / kMegabit, rank == link.from ? link.to : link.from));
        break;
      }
    }
  }
}

void advise(Examination& e, const ParameterLayout& layout) {
  const Measured& m = e.preflight.measured;
  const double now = e.forecasts[0].seconds;
  advise_of_cores(e, layout);
  auto add = [&](std::string change, double step, double tokens, bool costs) {
    const double gain = tokens * now / step;
    if (gain > 1.05) e.advice.push_back({std::move(change), step, gain, costs});
  };
  const StepForecast best = forecast(m, layout, choose(m, layout));
  if (m.workers > 1 && best.setting != e.setting) {
    add(format("--compress {}", text_of(best.setting)), best.seconds, 1, false);
  }
  Measured large = m;
  large.compute.forward *= 2;
  large.compute.backward *= 2;
  // Gradients hide behind the last part of a batch alone; more parts do not make it longer.
  if (m.compute.last_backward > 0.99 * m.compute.backward) large.compute.last_backward *= 2;
  add("a batch of twice the tokens", forecast(large, layout, e.setting).seconds, 2, false);
  if (m.workers > 1) advise_of_workers(e, layout, add);
  std::sort(e.advice.begin(), e.advice.end(), [](const Advice& a, const Advice& b) {
    return std::tuple(a.costs, -a.gain) < std::tuple(b.costs, -b.gain);
  });
}

void check_simulation(const SimulateSetting& setting, int workers) {
  if (workers > 1 || setting.workers == 0 || setting.bandwidth > 0) return;
  throw ConfigError(
      "one worker measures no link: give its rate as well, as --simulate workers=4,link=1gbit");
}

void extrapolate(Examination& e, const ParameterLayout& layout, const SimulateSetting& s) {
  if (s.workers == 0) return;
  std::vector<int> counts;
  for (int64_t n = 1; n < s.workers; n *= 2) counts.push_back(static_cast<int>(n));
  counts.push_back(static_cast<int>(s.workers));
  for (int n : counts) {
    const Measured other = simulate(e.preflight.measured, n, s.bandwidth, s.latency, s.same_share);
    const bool automatic = e.setting.method == CompressMethod::kAuto;
    e.simulated_workers.push_back(n);
    e.simulated.push_back(forecast(other, layout, automatic ? choose(other, layout) : e.setting));
    const auto all = static_cast<uint64_t>(n);
    e.simulated_idle.push_back(!s.same_share && all > e.sentences ? all - e.sentences : 0);
  }
  if (e.simulated_idle.back() > 0) {
    e.warnings.push_back(
        format("simulated: a batch has {} sentences, so {} of {} workers would have nothing to do; "
               "take a larger batch, or one that grows with them (batch=grows)",
               with_commas(e.sentences), with_commas(e.simulated_idle.back()),
               with_commas(static_cast<uint64_t>(s.workers))));
  }
}

}  // namespace reigen
