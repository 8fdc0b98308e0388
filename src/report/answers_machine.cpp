// Answers about machines and the network between them.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/report_maker.h"

namespace reigen {
namespace {

// Beyond the payload, of which a packet of 1,514 bytes holds 1,448: from 0.5% where an interface
// counts before data is cut into packets to 7% with the acknowledgements of what comes in.
constexpr double kHeaders = 0.04;
constexpr double kFullyUsed = 0.9;  // of the time
constexpr const char* kOneStep = "cannot tell, because no step after the first was finished";

double pearson(const std::vector<std::pair<double, double>>& pairs) {
  double x = 0;
  double y = 0;
  for (const auto& pair : pairs) {
    x += pair.first / static_cast<double>(pairs.size());
    y += pair.second / static_cast<double>(pairs.size());
  }
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (const auto& pair : pairs) {
    xx += (pair.first - x) * (pair.first - x);
    yy += (pair.second - y) * (pair.second - y);
    xy += (pair.first - x) * (pair.second - y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : NAN;
}

constexpr double kHardly = 0.3;  // correlation

// Workers that wait for a link keep it full, and what does not vary explains nothing: no
// correlation is no sign of an idle network then.
std::string busy_link_told(double r, const LinkUse& use) {
  const std::string rates =
      use.most > 0 ? format("{:.1f} of {:.1f} MB/s", use.carried / kMega, use.most / kMega) : "";
  std::string text =
      use.full() ? format("the link was full ({}), so that what it carried hardly varied", rates)
                 : format("steps waited for the network{}",
                          rates.empty() ? "" : format(" (the link carried {})", rates));
  if (std::abs(r) >= kHardly) {
    text += format("; steps took longer while {} was sent a second", r > 0 ? "more" : "less");
  } else {
    text += "; steps took as long with a little more or less of it";
  }
  return text;
}

std::string correlation_told(double r) {
  if (std::abs(r) < kHardly) return "hardly: steps took as long whatever the network carried";
  return r > 0 ? "steps took longer while more was sent a second"
               : "steps took longer while less was sent a second: more traffic did not slow them";
}

}  // namespace

// "no: 51% of the time was spent computing; the rest was evaluation 32%, compressing 10%"
std::string ReportMaker::use_told(const Efficiency& products) const {
  const TimeShares& s = report_.shares;
  if (!started() || s.total <= 0) return started() ? kOneStep : kNoStep;
  const double computing = s.computing() / s.total;
  const bool well = products.capacity <= 0 || products.share() >= kWellUsed;
  const bool fully = computing >= kFullyUsed && well && !time_.slow_start();
  std::string text = format("{}: {:.0f}% of the time was spent computing{}", fully ? "yes" : "no",
                            100 * computing, time_.slow_start() ? " once steps had begun" : "");
  std::string rest;
  for (const auto& [name, seconds] : parts_of(run_, s)) {
    rest += format("{}{} {:.0f}%", rest.empty() ? "" : ", ", name, 100 * seconds / s.total);
  }
  if (!rest.empty()) text += "; the rest was " + rest;
  if (products.capacity > 0) {
    text += format("; computing reached {:.0f}% of what these processors do in large products",
                   100 * products.share());
  }
  if (time_.slow_start()) text += "; " + start_up_told(time_);
  return text;
}

void ReportMaker::is_busy() {
  Answer& a = add("busy", "Were the GPUs or cores fully used?");
  const TimeShares& s = report_.shares;
  const Efficiency products = efficiency(run_, s);
  a.answer = use_told(products);
  report_.numbers["computing_share"] = s.total > 0 ? s.computing() / s.total : 0;
  if (products.capacity > 0) {
    a.figures.emplace_back("achieved while computing",
                           format("{:.1f} GFLOP/s of {:.1f}, measured with large products when the "
                                  "run began",
                                  products.achieved / 1e9, products.capacity / 1e9));
    report_.numbers["flops"] = {{"achieved", products.achieved}, {"capacity", products.capacity}};
  } else {
    a.figures.emplace_back("capacity",
                           "cannot tell, because it was not measured, or workers or machines "
                           "changed during the run");
  }
  Plot cpu = {.title = "Cores", .y = "percent busy, all of the machine", .from_zero = true};
  Plot gpu = {.title = "GPUs as NVML reports them",
              .y = "percent; waiting counts as busy, so this is no evidence of computing",
              .from_zero = true};
  for (const auto& [rank, fold] : run_.ranks) {
    if (!fold.last_sample) continue;
    const std::string host = format("{} (rank {})", fold.last_sample->host, rank);
    const double seconds = fold.machine.total("seconds");
    a.figures.emplace_back(
        host, format("{} cores {:.0f}% busy on average; at most {} of {} of memory",
                     fold.last_sample->cores.size(), fold.machine.total("cpu") / seconds,
                     human_bytes(static_cast<uint64_t>(fold.machine.total("memory_used"))),
                     human_bytes(fold.last_sample->memory_total)));
    if (cpu.series.size() < kMostLines)
      cpu.series.push_back({host, fold.machine.ratio("cpu", "seconds")});
    if (fold.last_sample->gpus.empty()) continue;
    a.figures.emplace_back(
        host + " GPUs",
        format("{} x {}, {:.0f}% in use, {:.0f} W, {:.0f} MHz on average",
               fold.last_sample->gpus.size(), fold.last_sample->gpus[0].name,
               fold.machine.total("gpu") / seconds, fold.machine.total("watts") / seconds,
               fold.machine.total("megahertz") / seconds));
    if (gpu.series.size() < kMostLines)
      gpu.series.push_back({host, fold.machine.ratio("gpu", "seconds")});
  }
  if (a.figures.empty()) a.figures.emplace_back("samples", "none: the run is older than they are");
  a.plots.push_back(split_plot());
  a.plots.push_back(std::move(cpu));
  a.plots.push_back(std::move(gpu));
}

void ReportMaker::is_network() {
  Answer& a = add("network", "Was the network the bottleneck?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  const bool several = run_.ranks.size() > 1;
  if (!several) {
    a.answer = "no: one worker, nothing crosses a network";
    return;
  }
  a.answer = bottleneck_.verdict == "cannot tell" ? "cannot tell: " + bottleneck_.because
             : bottleneck_.verdict == "network"   ? "yes"
                                                  : format("no, it was {}", bottleneck_.verdict);
  const TimeShares& s = report_.shares;
  const RollupTable& spans = first()->spans;
  const double steps = std::max(1.0, spans.total("steps"));
  const double share = s.total > 0 ? s.network / s.total : 0;
  a.figures = {
      {"exposed waiting for the network", format("{:.0f}% of the time", 100 * share)},
      {"network time behind computing",
       format("{:.0f}% of what there was",
              100 * spans.total("hidden") / std::max(1e-9, spans.total("busy")))},
      {"rank 0 sends",
       format("{} a step, {} of it to other machines",
              human_bytes(static_cast<uint64_t>(spans.total("sent") / steps)),
              human_bytes(static_cast<uint64_t>(spans.total("inter_node_bytes") / steps)))}};
  report_.numbers["network_share"] = share;
  Plot plot = {
      .title = "Network of the interface the job uses", .y = "MB/s out", .from_zero = true};
  for (const auto& [rank, fold] : run_.ranks) {
    if (!fold.last_sample) continue;
    for (const InterfaceSample& i : fold.last_sample->interfaces) {
      if (!i.used) continue;
      const double seconds = fold.machine.total("seconds");
      const std::string claim =
          i.speed > 0 ? format("claims {} Mbit/s", whole(static_cast<double>(i.speed) / 125'000))
                      : "claims no speed";
      a.figures.emplace_back(format("{} on {} (rank {})", i.name, fold.last_sample->host, rank),
                             format("{}; {:.2f} MB/s out on average, {:.2f} at most in or out",
                                    claim, fold.machine.total("out") / seconds / kMega,
                                    fold.machine.total("fastest") / kMega));
    }
    if (plot.series.size() < kMostLines) {
      plot.series.push_back(
          {format("rank {}", rank), scaled(fold.machine.ratio("out", "seconds"), 1 / kMega)});
    }
  }
  a.plots.push_back(std::move(plot));
  if (run_.ranks.size() <= kMostLines) {
    for (const auto& [rank, fold] : run_.ranks) {
      const double own = fold.spans.total("seconds") - fold.spans.total("communication");
      const double count = std::max(1.0, fold.spans.total("steps"));
      a.figures.emplace_back(
          format("rank {}", rank),
          format("{:.1f} ms a step of its own work, {:.1f} ms waiting for others or the network",
                 1000 * own / count, 1000 * fold.spans.total("communication") / count));
    }
  }
  explain_wire(a);
  a.plots.push_back(own_work_plot());
}

Plot ReportMaker::own_work_plot() const {
  Plot plot = {.title = "Own work of each rank", .y = "milliseconds a step", .from_zero = true};
  for (const auto& [rank, fold] : run_.ranks) {
    if (plot.series.size() == kMostLines) break;
    auto points = fold.spans.ratio("seconds", "steps");
    const auto waits = fold.spans.ratio("communication", "steps");
    for (size_t i = 0; i < points.size(); ++i) {
      points[i].second = 1000 * (points[i].second - waits[i].second);
    }
    plot.series.push_back({format("rank {}", rank), smoothed(points)});
  }
  return plot;
}

// What left a machine by the interface the job uses, against what its ranks handed to the reducer.
// The ranks of a machine are those from the one that samples it up to the next that samples.
void ReportMaker::explain_wire(Answer& a) {
  for (auto at = run_.ranks.begin(); at != run_.ranks.end();) {
    const auto& [rank, fold] = *at;
    double sent = 0;
    auto next = at;
    do {
      sent += next->second.spans.total("inter_node_bytes");
      ++next;
    } while (next != run_.ranks.end() && !next->second.last_sample);
    at = next;
    const double out = fold.machine.total("out");
    if (!fold.last_sample || sent <= 0 || out <= 0) continue;
    const double explained = sent * (1 + kHeaders) / out;
    const double sampled = fold.machine.total("seconds");
    a.figures.emplace_back(
        format("what left the machine of rank {}", rank),
        format("{:.2f} MB/s by the interface's own count; gradients, {:.0f}% added for headers and "
               "acknowledgements, explain {:.0f}% of it",
               out / sampled / kMega, 100 * kHeaders, 100 * explained));
    report_.numbers["wire"].push_back({{"rank", rank},
                                       {"interface_bytes", out},
                                       {"seconds", sampled},
                                       {"reducer_bytes", sent},
                                       {"headers", kHeaders},
                                       {"explained", explained}});
  }
}

LinkUse ReportMaker::link_use() const {
  LinkUse use;
  const double sampled = first()->machine.total("seconds");
  if (!crosses_network(run_) || run_.forecasts.empty() || sampled <= 0) return use;
  use.carried = first()->machine.total("out") / (1 + kHeaders) / sampled;
  for (const auto& [rank, fold] : run_.ranks) {
    if (rank > 0 && fold.last_sample) break;  // another machine
    const double sent = fold.spans.total("sent");
    if (sent <= 0) continue;
    use.most += run_.forecasts.back().bandwidth * fold.spans.total("inter_node_bytes") / sent;
  }
  return use;
}

std::string ReportMaker::correlation_answer(double r, size_t stretches) const {
  const LinkUse use = link_use();
  const bool busy = use.full() || bottleneck_.verdict == "network";
  if (!std::isfinite(r) && !busy) return "cannot tell, because one of the two did not vary";
  const std::string told = busy ? busy_link_told(r, use) : correlation_told(r);
  if (!std::isfinite(r)) return told;
  return format("{} (r = {:+.2f} over {} stretches of the run)", told, r, stretches);
}

void ReportMaker::correlation() {
  Answer& a = add("correlation", "How does step time correlate with network use between hosts?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  if (first() == nullptr || run_.ranks.size() < 2) {
    a.answer = "not at all: one worker, nothing crosses a network";
    return;
  }
  // Both over the same rows of the first rank's tables.
  const RollupTable& spans = first()->spans;
  const RollupTable& machine = first()->machine;
  std::vector<std::pair<double, double>> pairs;
  PlotSeries cloud = {"a stretch of steps", {}, true};
  for (const auto& [number, row] : machine.rows()) {
    const uint64_t step = number * machine.width();
    const auto found = spans.rows().find(step / spans.width());
    const double sampled = row[machine.column("seconds")];
    if (found == spans.rows().end() || sampled <= 0) continue;
    const double steps = found->second[spans.column("steps")];
    if (steps <= 0) continue;
    pairs.emplace_back(row[machine.column("out")] / sampled / kMega,
                       found->second[spans.column("seconds")] / steps);
  }
  if (pairs.size() < 5) {
    a.answer = format(
        "cannot tell, because only {} stretches of the run have samples; 5 are "
        "needed",
        pairs.size());
    return;
  }
  const double r = pearson(pairs);
  report_.numbers["step_network_correlation"] = r;
  a.answer = correlation_answer(r, pairs.size());
  a.figures.emplace_back("compared", "MB/s that left rank 0's machine and seconds a step");
  if (!crosses_network(run_)) {
    a.figures.emplace_back("the network", "the machine's own (lo): all workers are on one");
  }
  std::sort(pairs.begin(), pairs.end());
  a.plots.push_back({.title = "Step time against network use",
                     .x = "MB/s out",
                     .y = "seconds a step",
                     .series = {{"a stretch of steps", pairs, true}},
                     .from_zero = true});
}

Plot ReportMaker::split_plot() const {
  Plot plot = {.title = "Where a step's time goes", .y = "milliseconds", .from_zero = true};
  if (first() == nullptr) return plot;
  for (const char* span :
       {"input", "forward", "loss", "backward", "compression", "communication", "optimizer"}) {
    // What is too little to be seen would only take a colour.
    if (first()->spans.total(span) < 0.01 * first()->spans.total("seconds")) continue;
    plot.series.push_back({span, scaled(smoothed(first()->spans.ratio(span, "steps")), 1000)});
  }
  return plot;
}

}  // namespace reigen
