// Answers about the network between hosts: whether it was the bottleneck, and its correlation with
// step time.
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
  constexpr double kNearlyAll = 0.95;
  const std::string rates = use.most > 0 ? format("the link carried {} of {}",
                                                  mbit_text(use.carried), mbit_text(use.most))
                                         : "";
  std::string text;
  if (use.full()) {
    text = format("{}: it was {}full, so its traffic hardly varied", rates,
                  use.carried < kNearlyAll * use.most ? "nearly " : "");
  } else {
    text = format("steps waited for the network{}", rates.empty() ? "" : format(" ({})", rates));
  }
  if (r >= kWeakCorrelation) return text + "; steps were longer with more traffic per second";
  if (r <= -kWeakCorrelation) {
    return text + "; a step sends the same bytes, so that longer steps had less traffic per second";
  }
  return text + "; small changes of traffic made no difference to step time";
}

std::string correlation_text(double r) {
  if (std::abs(r) < kWeakCorrelation) return "hardly: step time did not depend on network traffic";
  return r > 0
             ? "steps were longer with more traffic per second"
             : "traffic did not slow steps down: a step sends the same bytes, so that longer steps "
               "had less traffic per second";
}

}  // namespace

// Bandwidth of each direction as measured before the first step.
void ReportMaker::add_links(Answer& a) {
  if (run_.predictions.empty()) return;
  const PredictionRecord& p = run_.predictions.back();
  a.figures.emplace_back("all-reduce before the first step",
                         format("{}, latency {:.3f} ms", mbit_text(p.bandwidth), 1e3 * p.latency));
  for (const MeasuredLink& link : p.links) {
    a.figures.emplace_back(format("rank {} to rank {} before the first step", link.from, link.to),
                           mbit_text(link.bandwidth));
    report_.numbers["links"].push_back(
        {{"from", link.from}, {"to", link.to}, {"bandwidth", link.bandwidth}});
  }
  const std::string slow = slow_links_text(p, report_.bottleneck.nominal_speed);
  if (!slow.empty()) report_.notes.emplace_back("slow link", slow);
  const std::string resent = resent_text(report_.bottleneck);
  if (!resent.empty()) report_.notes.emplace_back("lost packets", resent);
}

std::string ReportMaker::network_answer() const {
  const VerdictText verdict = text_of(report_.bottleneck);
  switch (report_.bottleneck.cause) {
    case Cause::kUnknown:
      return "cannot tell: " + verdict.because;
    case Cause::kNetwork:
      return "yes" + (verdict.since.empty() ? "" : ", " + verdict.since);
    case Cause::kSeveral:
      return format("no; there was no single cause ({} of the time was waiting for the network)",
                    percent_text(report_.shares.network / std::max(1e-9, report_.shares.total)));
    case Cause::kCompute:
      return "no; the run computed for most of the time";
    default:
      return format("no; the bottleneck was {}{}", verdict.verdict,
                    verdict.since.empty() ? "" : " " + verdict.since);
  }
}

void ReportMaker::is_network() {
  Answer& a = add("network", "Was the network the bottleneck?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  if (!several()) {
    a.answer = "no: a single worker uses no network";
    return;
  }
  a.answer = network_answer();
  const TimeShares& s = report_.shares;
  const RollupTable& spans = first()->spans;
  const double steps = std::max(1.0, spans.total("steps"));
  const double share = s.total > 0 ? s.network / s.total : 0;
  a.figures = {
      {"exposed communication", format("{:.0f}% of the time", 100 * share)},
      {"network traffic while the rank computed",
       format("{:.0f}% of the time of all traffic",
              100 * spans.total("hidden") / std::max(1e-9, spans.total("busy")))},
      {"sent by rank 0",
       format("{} per step, {} of it to other hosts",
              human_bytes(static_cast<uint64_t>(spans.total("sent") / steps)),
              human_bytes(static_cast<uint64_t>(spans.total("inter_node_bytes") / steps)))}};
  report_.numbers["network_share"] = share;
  add_interfaces(a);
  add_own_work(a);
  add_links(a);
  explain_wire(a);
  a.plots.push_back(own_work_plot());
}

// Traffic of each host, by the counters of its interface.
void ReportMaker::add_interfaces(Answer& a) {
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
                             format("{}; {} out on average, {} at most in or out", speed,
                                    mbit_text(summary.machine.total("out") / seconds),
                                    mbit_text(summary.machine.total("fastest"))));
    }
    if (plot.series.size() < kMostLines) {
      plot.series.push_back(
          {format("rank {}", rank), scaled(summary.machine.ratio("out", "seconds"), 1 / kMega)});
    }
  }
  a.plots.push_back(std::move(plot));
}

void ReportMaker::add_own_work(Answer& a) const {
  if (run_.ranks.size() > kMostLines) return;
  for (const auto& [rank, summary] : run_.ranks) {
    const double own = summary.spans.total("seconds") - summary.spans.total("communication");
    const double count = std::max(1.0, summary.spans.total("steps"));
    a.figures.emplace_back(
        format("rank {}", rank),
        format("{:.1f} ms own work per step, {:.1f} ms waiting for other ranks or the network",
               1000 * own / count, 1000 * summary.spans.total("communication") / count));
  }
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
    constexpr double kNearlyAll = 0.97;
    a.figures.emplace_back(
        format("traffic of the host of rank {}", rank),
        format(
            "{} sent, as counted by its interface; gradients, with about {:.0f}% for headers and "
            "acknowledgements, are {}",
            human_bytes(static_cast<uint64_t>(out)), 100 * kHeaders,
            explained >= kNearlyAll ? "all of it" : format("{:.0f}% of it", 100 * explained)));
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
  if (first() == nullptr || !several()) {
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

}  // namespace reigen
