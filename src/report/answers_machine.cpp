// Answers about hosts and the network between them.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/report_maker.h"

namespace reigen {
namespace {

// Headers as a share of the payload. A packet of 1,514 bytes has 1,448 of payload: from 0.5% where
// an interface counts data before it is cut into packets, to 7% with acknowledgements of received
// data.
constexpr double kHeaders = 0.04;
constexpr double kWeakCorrelation = 0.3;
constexpr size_t kFewestIntervals = 5;
constexpr const char* kOneStep = "cannot tell, because no step after the first is finished";

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

// Workers that wait for a link keep it full, and a constant explains nothing: a lack of correlation
// is then no sign of an idle network.
std::string busy_link_text(double r, const LinkUse& use) {
  const std::string rates =
      use.most > 0 ? format("{:.1f} of {:.1f} MB/s", use.carried / kMega, use.most / kMega) : "";
  std::string text = use.full()
                         ? format("the link was full ({}), so its traffic hardly varied", rates)
                         : format("steps waited for the network{}",
                                  rates.empty() ? "" : format(" (the link carried {})", rates));
  if (std::abs(r) >= kWeakCorrelation) {
    text += format("; steps were longer with {} traffic per second", r > 0 ? "more" : "less");
  } else {
    text += "; small changes of traffic made no difference to step time";
  }
  return text;
}

std::string correlation_text(double r) {
  if (std::abs(r) < kWeakCorrelation) return "hardly: step time did not depend on network traffic";
  return r > 0 ? "steps were longer with more traffic per second"
               : "steps were longer with less traffic per second: traffic did not slow them down";
}

}  // namespace

// "no: 51% of the time was spent computing; the rest was evaluation 32%, input 10%"
std::string ReportMaker::use_text(const Efficiency& products) const {
  const TimeShares& s = report_.shares;
  if (!started() || s.total <= 0) return started() ? kOneStep : kNoStep;
  const double computing = s.all_compute() / s.total;
  const bool fully = computing >= kFullyUsedShare && !products.low() && !time_.slow_start();
  std::string text = format("{}: {:.0f}% of the time was spent computing{}", fully ? "yes" : "no",
                            100 * computing, time_.slow_start() ? " after the start-up" : "");
  const std::string rest = text_of(report_.bottleneck.parts);
  if (!rest.empty()) text += "; the rest was " + rest;
  if (products.capacity > 0) {
    text += format("; computing reached {:.0f}% of the speed of large matrix products",
                   100 * products.share());
  }
  if (time_.slow_start()) text += "; " + start_up_text(time_);
  return text;
}

void ReportMaker::is_busy() {
  Answer& a = add("busy", "Were the GPUs or cores fully used?");
  const TimeShares& s = report_.shares;
  const Efficiency products = efficiency(run_, s);
  a.answer = use_text(products);
  report_.numbers["computing_share"] = s.total > 0 ? s.all_compute() / s.total : 0;
  if (products.capacity > 0) {
    a.figures.emplace_back(
        "achieved while computing",
        format("{} of {}, measured with large matrix products when the run began",
               human_flops(products.achieved), human_flops(products.capacity)));
    report_.numbers["flops"] = {{"achieved", products.achieved}, {"capacity", products.capacity}};
  } else {
    a.figures.emplace_back("capacity",
                           "unknown: not measured, or workers or hosts changed during the run");
  }
  Plot cpu = {.title = "CPU cores", .y = "percent busy, all cores of the host", .from_zero = true};
  Plot gpu = {.title = "GPU utilisation as NVML reports it",
              .y = "percent; waiting for the network counts as busy",
              .from_zero = true};
  for (const auto& [rank, summary] : run_.ranks) {
    if (!summary.last_sample) continue;
    const std::string host = format("{} (rank {})", summary.last_sample->host, rank);
    const double seconds = summary.machine.total("seconds");
    a.figures.emplace_back(
        host, format("{}, {:.0f}% busy on average; at most {} of {} of memory",
                     counted(summary.last_sample->cores.size(), "core"),
                     summary.machine.total("cpu") / seconds,
                     human_bytes(static_cast<uint64_t>(summary.machine.total("memory_used"))),
                     human_bytes(summary.last_sample->memory_total)));
    if (cpu.series.size() < kMostLines)
      cpu.series.push_back({host, summary.machine.ratio("cpu", "seconds")});
    if (summary.last_sample->gpus.empty()) continue;
    a.figures.emplace_back(
        host + " GPUs",
        format("{} x {}, {:.0f}% in use, {:.0f} W, {:.0f} MHz on average",
               summary.last_sample->gpus.size(), summary.last_sample->gpus[0].name,
               summary.machine.total("gpu") / seconds, summary.machine.total("watts") / seconds,
               summary.machine.total("megahertz") / seconds));
    if (gpu.series.size() < kMostLines)
      gpu.series.push_back({host, summary.machine.ratio("gpu", "seconds")});
  }
  if (a.figures.empty()) a.figures.emplace_back("samples", "none in the log");
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
    a.answer = "no: a single worker uses no network";
    return;
  }
  const VerdictText verdict = text_of(report_.bottleneck);
  switch (report_.bottleneck.cause) {
    case Cause::kUnknown:
      a.answer = "cannot tell: " + verdict.because;
      break;
    case Cause::kNetwork:
      a.answer = "yes";
      break;
    default:
      a.answer = format("no, it was {}", verdict.verdict);
  }
  const TimeShares& s = report_.shares;
  const RollupTable& spans = first()->spans;
  const double steps = std::max(1.0, spans.total("steps"));
  const double share = s.total > 0 ? s.network / s.total : 0;
  a.figures = {
      {"exposed communication", format("{:.0f}% of the time", 100 * share)},
      {"communication hidden behind compute",
       format("{:.0f}% of all communication",
              100 * spans.total("hidden") / std::max(1e-9, spans.total("busy")))},
      {"sent by rank 0",
       format("{} per step, {} of it to other hosts",
              human_bytes(static_cast<uint64_t>(spans.total("sent") / steps)),
              human_bytes(static_cast<uint64_t>(spans.total("inter_node_bytes") / steps)))}};
  report_.numbers["network_share"] = share;
  Plot plot = {.title = "Traffic on the job's interface", .y = "MB/s out", .from_zero = true};
  for (const auto& [rank, summary] : run_.ranks) {
    if (!summary.last_sample) continue;
    for (const InterfaceSample& i : summary.last_sample->interfaces) {
      if (!i.used) continue;
      const double seconds = summary.machine.total("seconds");
      const std::string speed =
          i.speed > 0 ? format("nominal {} Mbit/s", whole(static_cast<double>(i.speed) / 125'000))
                      : "nominal speed unknown";
      a.figures.emplace_back(format("{} on {} (rank {})", i.name, summary.last_sample->host, rank),
                             format("{}; {:.2f} MB/s out on average, {:.2f} at most in or out",
                                    speed, summary.machine.total("out") / seconds / kMega,
                                    summary.machine.total("fastest") / kMega));
    }
    if (plot.series.size() < kMostLines) {
      plot.series.push_back(
          {format("rank {}", rank), scaled(summary.machine.ratio("out", "seconds"), 1 / kMega)});
    }
  }
  a.plots.push_back(std::move(plot));
  if (run_.ranks.size() <= kMostLines) {
    for (const auto& [rank, summary] : run_.ranks) {
      const double own = summary.spans.total("seconds") - summary.spans.total("communication");
      const double count = std::max(1.0, summary.spans.total("steps"));
      a.figures.emplace_back(
          format("rank {}", rank),
          format("{:.1f} ms own work per step, {:.1f} ms waiting for other ranks or the network",
                 1000 * own / count, 1000 * summary.spans.total("communication") / count));
    }
  }
  explain_wire(a);
  a.plots.push_back(own_work_plot());
}

Plot ReportMaker::own_work_plot() const {
  Plot plot = {.title = "Own work of each rank", .y = "milliseconds per step", .from_zero = true};
  for (const auto& [rank, summary] : run_.ranks) {
    if (plot.series.size() == kMostLines) break;
    auto points = summary.spans.ratio("seconds", "steps");
    const auto waits = summary.spans.ratio("communication", "steps");
    for (size_t i = 0; i < points.size(); ++i) {
      points[i].second = 1000 * (points[i].second - waits[i].second);
    }
    plot.series.push_back({format("rank {}", rank), smoothed(points)});
  }
  return plot;
}

// Bytes that left a host through the job's interface, against the gradients that its ranks sent.
// The ranks of a host are those from the one that samples it up to the next that samples.
void ReportMaker::explain_wire(Answer& a) {
  for (auto at = run_.ranks.begin(); at != run_.ranks.end();) {
    const auto& [rank, summary] = *at;
    double sent = 0;
    auto next = at;
    do {
      sent += next->second.spans.total("inter_node_bytes");
      ++next;
    } while (next != run_.ranks.end() && !next->second.last_sample);
    at = next;
    const double out = summary.machine.total("out");
    if (!summary.last_sample || sent <= 0 || out <= 0) continue;
    const double explained = sent * (1 + kHeaders) / out;
    const double sampled = summary.machine.total("seconds");
    a.figures.emplace_back(
        format("traffic of the host of rank {}", rank),
        format("{:.2f} MB/s sent, as counted by its interface; gradients, with {:.0f}% for headers "
               "and acknowledgements, explain {:.0f}% of them",
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
  if (!crosses_network(run_) || run_.predictions.empty() || sampled <= 0) return use;
  use.carried = first()->machine.total("out") / (1 + kHeaders) / sampled;
  for (const auto& [rank, summary] : run_.ranks) {
    if (rank > 0 && summary.last_sample) break;  // a rank of a different host
    const double sent = summary.spans.total("sent");
    if (sent <= 0) continue;
    use.most += run_.predictions.back().bandwidth * summary.spans.total("inter_node_bytes") / sent;
  }
  return use;
}

std::string ReportMaker::correlation_answer(double r, size_t intervals) const {
  const LinkUse use = link_use();
  const bool busy = use.full() || report_.bottleneck.cause == Cause::kNetwork;
  if (!std::isfinite(r) && !busy)
    return "cannot tell, because step time or network traffic did not vary";
  const std::string text = busy ? busy_link_text(r, use) : correlation_text(r);
  if (!std::isfinite(r)) return text;
  return format("{} (r = {:+.2f} over {} of the run)", text, r, counted(intervals, "interval"));
}

void ReportMaker::correlation() {
  Answer& a = add("correlation", "How does step time correlate with network use between hosts?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  if (first() == nullptr || run_.ranks.size() < 2) {
    a.answer = "not at all: a single worker uses no network";
    return;
  }
  // Both from the same rows of rank 0's tables.
  const RollupTable& spans = first()->spans;
  const RollupTable& machine = first()->machine;
  std::vector<std::pair<double, double>> pairs;
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
  if (pairs.size() < kFewestIntervals) {
    a.answer =
        format("cannot tell, because a correlation needs {} with samples, and the run has {}",
               counted(kFewestIntervals, "interval"), pairs.size());
    return;
  }
  const double r = pearson(pairs);
  report_.numbers["step_network_correlation"] = r;
  a.answer = correlation_answer(r, pairs.size());
  a.figures.emplace_back("compared", "MB/s sent by rank 0's host, and seconds per step");
  if (!crosses_network(run_)) {
    a.figures.emplace_back("network", "loopback (lo): all workers are on one host");
  }
  std::sort(pairs.begin(), pairs.end());
  a.plots.push_back({.title = "Step time against network use",
                     .x = "MB/s out",
                     .y = "seconds per step",
                     .series = {{"interval of steps", pairs, true}},
                     .from_zero = true});
}

Plot ReportMaker::split_plot() const {
  Plot plot = {.title = "Time of a step by span", .y = "milliseconds", .from_zero = true};
  if (first() == nullptr) return plot;
  for (const char* span :
       {"input", "forward", "loss", "backward", "compression", "communication", "optimizer"}) {
    // Less than 1% would be invisible and take a colour.
    if (first()->spans.total(span) < 0.01 * first()->spans.total("seconds")) continue;
    plot.series.push_back({span, scaled(smoothed(first()->spans.ratio(span, "steps")), 1000)});
  }
  return plot;
}

}  // namespace reigen
