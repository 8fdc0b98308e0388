#include "report/live/live_charts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "report/svg_plot.h"
#include "report/verdict/learning/learning.h"

namespace reigen {
namespace {

constexpr size_t kMostPoints = 512;  // more than a chart has pixels for on most screens
constexpr size_t kMostLines = 6;     // more cannot be distinguished

double five_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 4);
  return std::round(value / unit) * unit;
}

// Averages neighbours until there are few enough; the shape of the line stays the same.
Points thinned(Points points) {
  while (points.size() > kMostPoints) {
    Points half;
    for (size_t i = 0; i + 1 < points.size(); i += 2) {
      half.emplace_back(points[i + 1].first, (points[i].second + points[i + 1].second) / 2);
    }
    if (points.size() % 2 == 1) half.push_back(points.back());
    points = std::move(half);
  }
  return points;
}

Points scaled(Points points, double factor) {
  for (auto& point : points) point.second *= factor;
  return points;
}

Json json_of(const char* id, const Plot& plot, bool stacked = false) {
  Json chart = {{"id", id},
                {"title", plot.title},
                {"unit", plot.y},
                {"fromZero", plot.from_zero},
                {"stacked", stacked},
                {"summary", summary_of(plot)},
                {"series", Json::array()}};
  for (const PlotSeries& series : plot.series) {
    Json points = Json::array();
    for (const auto& [x, y] : thinned(series.points)) {
      if (std::isfinite(y)) points.push_back({x, five_digits(y)});
    }
    if (points.empty()) continue;
    chart["series"].push_back(
        {{"name", series.name}, {"dots", series.dots}, {"points", std::move(points)}});
  }
  return chart;
}

using OfMachine = Points (*)(const RankSummary& summary);

std::string host_of(int rank, const RankSummary& summary) {
  return format("{} (rank {})", summary.last_sample->host, rank);
}

// The mean, the lowest and the highest value of all hosts, over rows of `width` steps.
std::vector<PlotSeries> spread(const std::map<std::string, Points>& hosts, double width) {
  struct Row {
    double sum = 0;
    double low = INFINITY;
    double high = -INFINITY;
    double count = 0;
  };
  std::map<double, Row> rows;
  for (const auto& [host, points] : hosts) {
    for (const auto& [x, y] : points) {
      Row& row = rows[std::floor(x / width)];
      row.sum += y;
      row.count += 1;
      row.low = std::min(row.low, y);
      row.high = std::max(row.high, y);
    }
  }
  std::vector<PlotSeries> series = {
      {format("mean of {} hosts", hosts.size()), {}}, {"lowest", {}}, {"highest", {}}};
  for (const auto& [number, row] : rows) {
    const double x = (number + 1) * width - 1;
    series[0].points.emplace_back(x, row.sum / row.count);
    series[1].points.emplace_back(x, row.low);
    series[2].points.emplace_back(x, row.high);
  }
  return series;
}

// A line for each host, or mean and range of all hosts where there are too many.
std::vector<PlotSeries> by_host(const RunSummary& run, OfMachine values) {
  std::map<std::string, Points> hosts;
  std::vector<PlotSeries> series;
  uint64_t width = 1;
  for (const auto& [rank, summary] : run.ranks) {
    if (!summary.last_sample) continue;
    Points points = values(summary);
    if (points.empty()) continue;
    width = std::max(width, summary.machine.width());
    hosts[host_of(rank, summary)] = points;
    series.push_back({host_of(rank, summary), std::move(points)});
  }
  return series.size() <= kMostLines ? series : spread(hosts, static_cast<double>(width));
}

Points megabytes(const RankSummary& summary, const char* column) {
  return scaled(summary.machine.ratio(column, "seconds"), 1e-6);
}

Plot split_plot(const RunSummary& run) {
  Plot plot = {.title = "Time of a step by span (rank 0)", .y = "milliseconds", .from_zero = true};
  const auto first = run.ranks.find(0);
  if (first == run.ranks.end()) return plot;
  const RollupTable& spans = first->second.spans;
  for (const char* span :
       {"forward", "loss", "backward", "optimizer", "communication", "input", "observe", "other"}) {
    if (spans.total(span) <= 0.002 * spans.total("seconds")) continue;  // too thin to see
    plot.series.push_back({span, scaled(spans.ratio(span, "steps"), 1000)});
  }
  return plot;
}

}  // namespace

Json live_charts(const RunSummary& run) {
  Json charts = Json::array();
  auto add = [&](const char* id, const Plot& plot, bool stacked = false) {
    if (!is_empty(plot)) charts.push_back(json_of(id, plot, stacked));
  };
  add("loss", {.title = "Loss",
               .y = "per target token; the training loss is with dropout",
               .series = {{"training", training_losses(run)},
                          {"validation", validation_losses(run), true}}});
  PlotSeries bleu = {"BLEU", {}, true};
  for (const EvaluationRecord& e : run.evaluations) {
    if (e.bleu) bleu.points.emplace_back(static_cast<double>(e.step), *e.bleu);
  }
  add("bleu", {.title = "BLEU on the validation set",
               .y = "0 to 100, higher is better",
               .series = {bleu},
               .from_zero = true});
  const DirectionCurves directions = direction_curves(run);
  add("loss-directions", {.title = "Validation loss by direction",
                          .y = "per target token",
                          .series = dots_of(directions.losses)});
  add("bleu-directions", {.title = "BLEU by direction",
                          .y = "0 to 100, higher is better",
                          .series = dots_of(directions.bleu),
                          .from_zero = true});
  for (const auto& [name, points] : metric_points(run)) {
    add(("metric-" + name).c_str(), {.title = format("{} on the validation set", name),
                                     .y = "by eval.command, higher is better",
                                     .series = {{name, points, true}}});
  }
  add("rate", {.title = "Learning rate",
               .y = "set by the schedule",
               .series = {{"learning rate", run.steps.ratio("rate", "steps")}},
               .from_zero = true});
  add("throughput", {.title = "Throughput",
                     .y = "target tokens per second",
                     .series = {{"tokens per second", run.steps.ratio("target_tokens", "seconds")}},
                     .from_zero = true});
  add("split", split_plot(run), true);
  if (run.ranks.size() > 1) {
    add("network-out", {.title = "Network sent, by host",
                        .y = "MB/s on the network interface of the job",
                        .series = by_host(run, [](auto& f) { return megabytes(f, "out"); }),
                        .from_zero = true});
    add("network-in", {.title = "Network received, by host",
                       .y = "MB/s on the network interface of the job",
                       .series = by_host(run, [](auto& f) { return megabytes(f, "in"); }),
                       .from_zero = true});
  }
  const bool gpus = std::any_of(run.ranks.begin(), run.ranks.end(), [](const auto& entry) {
    return entry.second.last_sample && !entry.second.last_sample->gpus.empty();
  });
  if (gpus) {
    add("gpu", {.title = "GPU utilisation, by host",
                .y = "percent, from NVML, which counts waiting for the network as busy",
                .series = by_host(run, [](auto& f) { return f.machine.ratio("gpu", "seconds"); }),
                .from_zero = true});
  }
  add("cpu", {.title = "CPU utilisation, by host",
              .y = "percent of all cores of the host",
              .series = by_host(run, [](auto& f) { return f.machine.ratio("cpu", "seconds"); }),
              .from_zero = true});
  return charts;
}

}  // namespace reigen
