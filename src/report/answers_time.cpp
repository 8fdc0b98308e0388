// Answers about time: of the run, of a step, and whether it was foretold.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/statistics.h"
#include "report/report_maker.h"

namespace reigen {

std::string ReportMaker::ending() const {
  switch (report_.state.kind) {
    case RunStateKind::kStarting:
    case RunStateKind::kRunning:
      return "so far: it is running";
    case RunStateKind::kEnded:
      return "ended by " + run_.ends.back().reason;
    case RunStateKind::kGone:
      return "then it stopped without an end: its process is gone";
    case RunStateKind::kSilent:
      return "then it fell silent";
  }
  return "";
}

void ReportMaker::how_long() {
  Answer& a = add("how-long", "How long did it take?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  a.answer = format("{} for {} steps, {}", human_seconds(time_.wall),
                    whole(run_.steps.total("steps")), ending());
  a.figures = {{"steps", human_seconds(run_.steps.total("seconds"))},
               {"evaluations", human_seconds(report_.shares.evaluation)},
               {"standing still for checkpoints", human_seconds(report_.shares.checkpoint)},
               {"start-up", human_seconds(time_.start_up)},
               {"of it opening and verifying data", human_seconds(time_.data)},
               {"other", human_seconds(time_.other())},
               {"attempts", whole(static_cast<double>(run_.starts.size()))}};
  double lost = 0;
  for (const auto& s : run_.starts) lost += s.lost_seconds;
  if (lost > 0) a.figures.emplace_back("done twice after a stop", human_seconds(lost));
  if (settings_.price_per_hour > 0) add_cost(a, time_.wall + lost);
  a.plots.push_back({.title = "Throughput",
                     .y = "target tokens a second",
                     .series = {{"tokens/s", run_.steps.ratio("target_tokens", "seconds")}},
                     .from_zero = true});
}

// The first rank on each machine samples it.
void ReportMaker::add_cost(Answer& a, double seconds) {
  const auto sampled = std::count_if(run_.ranks.begin(), run_.ranks.end(), [](const auto& rank) {
    return rank.second.last_sample.has_value();
  });
  const auto machines = std::max<ptrdiff_t>(1, sampled);  // none in less than a second
  const double cost = seconds / 3600 * settings_.price_per_hour * static_cast<double>(machines);
  a.answer += format("; it cost {:.2f}", cost);
  a.figures.emplace_back(
      "cost", format("{:.2f} at {:g} an hour for each of {} machines, what was done twice included",
                     cost, settings_.price_per_hour, machines));
  const double tokens = run_.steps.total("target_tokens");
  if (tokens > 0) {
    a.figures.emplace_back("cost of a million target tokens",
                           format("{:.4f}", cost / tokens * 1e6));
  }
  report_.numbers["cost"] = cost;
  report_.numbers["machines"] = machines;
}

void ReportMaker::average_step() {
  Answer& a = add("average-step", "How long did an average step take?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  const double steps = std::max(1.0, run_.steps.total("steps"));
  const double mean = run_.steps.total("seconds") / steps;
  const double middle = median(run_.step_seconds);
  a.answer = format("{} on average, {} in the middle", human_seconds(mean), human_seconds(middle));
  report_.numbers["mean_step_seconds"] = mean;
  report_.numbers["median_step_seconds"] = middle;
  add_forecast(a);
  add_doctor(a);
  a.figures.emplace_back("slowest step", human_seconds(run_.steps.total("slowest")));
  a.figures.emplace_back("target tokens a step", whole(run_.steps.total("target_tokens") / steps));
  a.figures.emplace_back("skipped steps", whole(run_.steps.total("skipped")));
  if (first() != nullptr) {
    for (const char* span : {"input", "forward", "loss", "backward", "compression", "communication",
                             "optimizer", "observe", "other"}) {
      const double seconds = first()->spans.total(span) / steps;
      if (seconds > 0) a.figures.emplace_back(span, human_seconds(seconds));
    }
  }
  a.plots.push_back({.title = "Step time",
                     .y = "seconds",
                     .series = {{"mean", run_.steps.ratio("seconds", "steps")}},
                     .from_zero = true});
  a.plots.push_back(split_plot());
}

// What was measured before the first step said what a step should take; here is what it took.
void ReportMaker::add_forecast(Answer& a) {
  if (run_.forecasts.empty()) return;
  const ForecastRecord& f = run_.forecasts.back();
  const double middle = median(run_.step_seconds);
  if (middle <= 0 || f.seconds <= 0) return;
  const double off = middle / f.seconds - 1;
  a.answer += format("; foretold were {}", human_seconds(f.seconds));
  a.figures.emplace_back(
      "foretold before the first step",
      format("{}: {} computing, {}{} waiting ({})", human_seconds(f.seconds),
             human_seconds(f.compute),
             f.compression > 0 ? format("{} compressing, ", human_seconds(f.compression)) : "",
             human_seconds(f.exposed), f.method));
  a.figures.emplace_back("against the median of what came", format("{:+.0f}%", 100 * off));
  a.figures.emplace_back("the link as measured then",
                         format("{:.2f} MB/s, {:.3f} ms", f.bandwidth / kMega, 1e3 * f.latency));
  report_.numbers["forecast"] = {{"seconds", f.seconds},
                                 {"compute", f.compute},
                                 {"compression", f.compression},
                                 {"exposed", f.exposed},
                                 {"bandwidth", f.bandwidth},
                                 {"measured_median", middle},
                                 {"off", off}};
}

// The same of a longer examination, where its findings were kept.
void ReportMaker::add_doctor(Answer& a) {
  const std::string path =
      settings_.doctor.empty() ? directory_ + "/doctor.json" : settings_.doctor;
  if (settings_.doctor.empty() && !path_exists(path)) return;
  try {
    const Json found = Json::parse(read_file(path));
    const Json& step = found.at("forecast");
    const double seconds = step.at("step_seconds");
    const double middle = median(run_.step_seconds);
    const auto bottleneck = found.at("bottleneck").get<std::string>();
    a.figures.emplace_back(
        "foretold by doctor",
        format("{} a step ({} computing, {} waiting), against the median of what came {:+.0f}%; "
               "bottleneck {}, and it was {}",
               human_seconds(seconds), human_seconds(step.at("compute_seconds")),
               human_seconds(step.at("waiting_seconds")), 100 * (middle / seconds - 1), bottleneck,
               bottleneck_.verdict));
    const double hours = found.at("hours");
    if (hours > 0) {
      a.figures.emplace_back("hours foretold by doctor",
                             format("{:.2f}; it took {:.2f}, evaluations and checkpoints included",
                                    hours, time_.wall / 3600));
    }
    report_.numbers["doctor"] = {{"step_seconds", seconds},
                                 {"off", middle / seconds - 1},
                                 {"bottleneck", bottleneck},
                                 {"hours", hours}};
  } catch (const Json::exception&) {
    if (!settings_.doctor.empty()) {
      throw DataError(format("{}: not what `reigen doctor --json` prints", path));
    }
    report_.notes.emplace_back("doctor.json", "cannot be read");
  }
}

}  // namespace reigen
