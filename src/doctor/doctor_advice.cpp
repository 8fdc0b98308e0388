#include "doctor/doctor_advice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

double usual_compute(const Examination& e) {
  std::vector<double> seconds;
  for (const WorkerFacts& w : e.workers) seconds.push_back(w.compute);
  return usual_seconds(std::move(seconds));
}

const WorkerFacts& slowest_worker(const Examination& e) {
  return *std::max_element(
      e.workers.begin(), e.workers.end(),
      [](const WorkerFacts& a, const WorkerFacts& b) { return a.compute < b.compute; });
}

bool is_slow(const WorkerFacts& worker, double usual) {
  return worker.compute > kSlowRankInProbe * usual;
}

void scale_passes(ComputeTimes& compute, double factor) {
  compute.forward *= factor;
  compute.backward *= factor;
  compute.last_backward *= factor;
}

// Adds a suggestion if it gains enough. `tokens`: factor of tokens per step.
void add_if_gain(Examination& e, Suggestion s, double tokens = 1) {
  s.gain = tokens * e.predictions[0].seconds / s.step;
  if (s.gain > kSuggestedGain) e.suggestions.push_back(s);
}

// The time of a share has a part that more cores shorten and a part that they do not; measurements
// with all and with half of the threads give both.
void suggest_threads(Examination& e, const ParameterLayout& layout) {
  constexpr double kSlightlySlower = 1.1;
  if (e.half.threads == 0) return;
  const Measured& m = e.preflight.measured;
  const double now = e.predictions[0].seconds;
  const double whole = m.compute.forward + m.compute.backward;
  const double gained = std::max(0.0, e.half.seconds - whole);
  auto step_of = [&](double share) {
    Measured other = m;
    scale_passes(other.compute, std::max(share, 0.01 * whole) / whole);
    return predict_step(other, layout, e.setting).seconds;
  };
  const double fewer = step_of(e.half.seconds);
  if (fewer < kSlightlySlower * now) {
    e.suggestions.push_back({.kind = Suggestion::Kind::kFewerThreads,
                             .count = e.half.threads,
                             .step = fewer,
                             .gain = now / fewer});
  }
  // Doubling the threads again saves half of the time that the last doubling saved.
  add_if_gain(e, {.kind = Suggestion::Kind::kMoreThreads,
                  .count = 2 * e.half.of,
                  .step = step_of(whole - gained / 2)});
}

// Fewer workers (without the slow one, or one alone without a network), and more workers.
void suggest_workers(Examination& e, const ParameterLayout& layout) {
  const Measured& m = e.preflight.measured;
  auto step_with = [&](int workers, double share) {  // seconds of each worker's passes
    Measured other = simulate(m, workers, 0, 0, false);
    scale_passes(other.compute, share / (m.compute.forward + m.compute.backward));
    return predict_step(other, layout, e.setting).seconds;
  };
  const double usual = usual_compute(e) - m.compute.optimizer;
  const WorkerFacts& slowest = slowest_worker(e);
  if (m.workers > 2 && is_slow(slowest, usual_compute(e))) {
    add_if_gain(e, {.kind = Suggestion::Kind::kWithoutWorker,
                    .rank = slowest.rank,
                    .step = step_with(m.workers - 1, usual)});
  }
  add_if_gain(e, {.kind = Suggestion::Kind::kOneWorker, .count = 1, .step = step_with(1, usual)});
  if (e.machines < 2) return;  // more workers would only share the host's cores
  const int more = 2 * m.workers;
  const Measured twice = simulate(m, more, 0, 0, false);
  add_if_gain(e, {.kind = Suggestion::Kind::kMoreWorkers,
                  .count = more,
                  .step = predict_step(twice, layout, choose_setting(twice, layout)).seconds});
}

// A host whose every link is far slower than the usual link has a slow port.
void find_slow_ports(Examination& e) {
  std::map<int, double> best;  // by rank
  for (const PairLink& link : e.links) {
    for (int rank : {link.from, link.to}) best[rank] = std::max(best[rank], link.bandwidth);
  }
  if (best.size() < 3) return;
  std::vector<double> all;
  all.reserve(best.size());
  for (const auto& [rank, bandwidth] : best) all.push_back(bandwidth);
  std::sort(all.begin(), all.end());
  const double usual = all[all.size() / 2];
  for (const auto& [rank, bandwidth] : best) {
    if (bandwidth >= kSlowLinkShare * usual) continue;
    e.findings.push_back(
        {.kind = Finding::Kind::kSlowPort, .rank = rank, .value = bandwidth, .usual = usual});
  }
}

void find_slow_links(Examination& e) {
  for (const PairLink& link : e.links) {
    for (int rank : {link.from, link.to}) {
      const WorkerFacts& w = e.workers[static_cast<size_t>(rank)];
      const double reported = static_cast<double>(w.speed) * kMegabit;
      if (reported <= 0 || link.bandwidth >= kSlowLinkShare * reported) continue;
      e.findings.push_back({.kind = Finding::Kind::kSlowLink,
                            .rank = rank,
                            .peer = rank == link.from ? link.to : link.from,
                            .value = link.bandwidth,
                            .usual = reported});
      break;
    }
  }
}

}  // namespace

void name_straggler(Examination& e) {
  const WorkerFacts& slowest = slowest_worker(e);
  if (e.verdict.cause != Cause::kCompute || !is_slow(slowest, usual_compute(e))) return;
  e.verdict = {.cause = Cause::kStraggler, .rank = slowest.rank};
}

void examine_hosts(Examination& e, double bytes_needed) {
  const double usual = usual_compute(e);
  for (const WorkerFacts& w : e.workers) {
    auto add = [&](Finding::Kind kind, double value, double reference) {
      e.findings.push_back({.kind = kind, .rank = w.rank, .value = value, .usual = reference});
    };
    if (is_slow(w, usual)) add(Finding::Kind::kSlowWorker, w.compute, usual);
    if (!w.interface_note.empty()) add(Finding::Kind::kInterface, 0, 0);
    if (std::abs(w.clock_ahead) > kClockSkewSeconds) add(Finding::Kind::kClock, w.clock_ahead, 0);
    if (w.disk_rate > 0 && w.disk_rate < bytes_needed) {
      add(Finding::Kind::kSlowDisk, w.disk_rate, bytes_needed);
    }
  }
  find_slow_ports(e);
  find_slow_links(e);
}

void suggest(Examination& e, const ParameterLayout& layout) {
  const Measured& m = e.preflight.measured;
  suggest_threads(e, layout);
  const StepPrediction best = predict_step(m, layout, choose_setting(m, layout));
  if (m.workers > 1 && best.setting != e.setting) {
    add_if_gain(
        e, {.kind = Suggestion::Kind::kCompress, .setting = best.setting, .step = best.seconds});
  }
  Measured large = m;
  large.compute.forward *= 2;
  large.compute.backward *= 2;
  // Communication overlaps only with the backward of the last micro-batch. Twice the batch doubles
  // that backward if there is one micro-batch; if there are several, it only adds micro-batches.
  if (m.compute.last_backward > 0.99 * m.compute.backward) large.compute.last_backward *= 2;
  add_if_gain(e,
              {.kind = Suggestion::Kind::kLargerBatch,
               .step = predict_step(large, layout, e.setting).seconds},
              2);
  if (m.workers > 1) suggest_workers(e, layout);
  std::sort(e.suggestions.begin(), e.suggestions.end(),
            [](const Suggestion& a, const Suggestion& b) {
              return std::tuple(a.costs(), -a.gain) < std::tuple(b.costs(), -b.gain);
            });
}

void check_simulation(const SimulateSetting& setting, int workers) {
  if (workers > 1 || setting.workers == 0 || setting.bandwidth > 0) return;
  throw ConfigError(
      "--simulate needs the speed of a link, which one worker cannot measure; give it, as in "
      "--simulate workers=4,link=1gbit, or examine two workers or more");
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
    e.simulated.push_back(
        predict_step(other, layout, automatic ? choose_setting(other, layout) : e.setting));
    const auto all = static_cast<uint64_t>(n);
    e.simulated_idle.push_back(!s.same_share && all > e.sentences ? all - e.sentences : 0);
  }
  if (e.simulated_idle.back() > 0) {
    e.findings.push_back({.kind = Finding::Kind::kIdleWorkers,
                          .value = static_cast<double>(e.simulated_idle.back()),
                          .usual = static_cast<double>(s.workers)});
  }
}

}  // namespace reigen
