// Answers about time: of the run, of a step, and how good its prediction was.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/statistics.h"
#include "report/report_maker.h"
#include "report/verdict/machine/run_course.h"

namespace reigen {
namespace {

// In the unit that suits `usual`, so that two times of a line compare at a glance.
std::string step_seconds_text(double seconds, double usual) {
  constexpr double kSmall = 0.9995;  // seconds
  if (usual >= kSmall) return human_seconds(seconds);
  return seconds < 0.00995  ? format("{:.2f} ms", 1000 * seconds)
         : seconds < 0.0995 ? format("{:.1f} ms", 1000 * seconds)
                            : format("{:.0f} ms", 1000 * seconds);
}

std::string off_text(double off) {
  return off >= 1 ? format("{:.1f} times as long", 1 + off) : format("{:+.0f}%", 100 * off);
}

}  // namespace

std::string ReportMaker::ending() const {
  switch (report_.state.kind) {
    case RunStateKind::kStarting:
    case RunStateKind::kRunning:
      return "still running";
    case RunStateKind::kEnded:
      return "ended by " + run_.ends.back().reason;
    case RunStateKind::kGone:
      return "then it was killed";
    case RunStateKind::kSilent:
      return "then its log stopped growing";
  }
  return "";
}

void ReportMaker::how_long() {
  Answer& a = add("how-long", "How long did it take?");
  if (!started()) {
    a.answer = kNoStep;
    return;
  }
  a.answer = format("{} for {}{}, {}", human_seconds(time_.wall),
                    counted(static_cast<uint64_t>(run_.steps.total("steps")), "step"),
                    repeated_text(), ending());
  a.figures = {{"steps", human_seconds(time_.steps)},
               {"evaluations", human_seconds(time_.evaluations)},
               {"checkpoint stalls", human_seconds(time_.stalls)},
               {"start-up", human_seconds(time_.start_up)},
               {"opening and verifying data (part of the start-up)", human_seconds(time_.data)}};
  if (report_.bottleneck.whole.shares.writing > 0) {
    a.figures.emplace_back("longer steps while checkpoints were written (part of the steps)",
                           human_seconds(report_.bottleneck.whole.shares.writing));
  }
  if (time_.repeated > 0) {
    a.figures.emplace_back("steps repeated after a stop", human_seconds(time_.repeated));
  }
  a.figures.emplace_back("other", human_seconds(time_.other()));
  a.figures.emplace_back("attempts", whole(static_cast<double>(run_.starts.size())));
  const auto restarts = std::count_if(run_.starts.begin(), run_.starts.end(),
                                      [](const StartRecord& s) { return s.restart > 0; });
  if (restarts > 0) {
    a.figures.emplace_back("of these restarts (--restarts)", whole(static_cast<double>(restarts)));
  }
  if (time_.paused > 0) {
    a.figures.emplace_back("between attempts (not part of the time)", human_seconds(time_.paused));
  }
  report_.numbers["time"] = {{"wall", time_.wall},
                             {"steps", time_.steps},
                             {"evaluations", time_.evaluations},
                             {"stalls", time_.stalls},
                             {"start_up", time_.start_up},
                             {"repeated", time_.repeated},
                             {"other", time_.other()},
                             {"paused", time_.paused},
                             {"writing_in_steps", report_.bottleneck.whole.shares.writing},
                             {"repeated_steps", time_.repeated_steps}};
  advise_saving(a);
  if (settings_.price_per_hour > 0) add_cost(a, time_.wall);
  a.plots.push_back({.title = "Throughput",
                     .y = "target tokens per second",
                     .series = {{"tokens/s", run_.steps.ratio("target_tokens", "seconds")}},
                     .from_zero = true});
}

std::string ReportMaker::repeated_text() const {
  std::string text;
  if (time_.repeated > 0) {
    text += format(", {} of it for {} that a stop made worthless", human_seconds(time_.repeated),
                   counted(time_.repeated_steps, "step"));
  }
  if (run_.starts.size() > 1) {
    text += format(", in {} attempts", run_.starts.size());
    if (time_.paused > 0) text += format(" with {} between them", human_seconds(time_.paused));
  }
  return text;
}

// Half as far apart, checkpoints lose half as much.
void ReportMaker::advise_saving(Answer& a) {
  if (time_.repeated <= 0 || !options_ || options_->checkpoint.every < 2) return;
  a.figures.emplace_back(
      "to repeat less",
      format(
          "`reigen train --run {} --checkpoint.every {}`: a stop then repeats half as many steps "
          "on average, {} instead of {} here",
          shell_word(directory_), options_->checkpoint.every / 2, human_seconds(time_.repeated / 2),
          human_seconds(time_.repeated)));
}

// The first rank on each host samples it.
void ReportMaker::add_cost(Answer& a, double seconds) {
  const auto sampled = std::count_if(run_.ranks.begin(), run_.ranks.end(), [](const auto& rank) {
    return rank.second.last_sample.has_value();
  });
  const auto machines =
      std::max<ptrdiff_t>(1, sampled);  // a run shorter than a second has no samples
  const double cost = seconds / 3600 * settings_.price_per_hour * static_cast<double>(machines);
  a.answer += format("; it cost {:.2f}", cost);
  a.figures.emplace_back(
      "cost", format("{:.2f} at {:g} per hour for each of {}, repeated steps included", cost,
                     settings_.price_per_hour, counted(static_cast<uint64_t>(machines), "host")));
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
  a.answer = format("{} on average (median {})", step_seconds_text(mean, mean),
                    step_seconds_text(middle, mean));
  report_.numbers["mean_step_seconds"] = mean;
  report_.numbers["median_step_seconds"] = middle;
  add_prediction(a);
  add_doctor(a);
  a.figures.emplace_back("slowest step", human_seconds(run_.steps.total("slowest")));
  a.figures.emplace_back("target tokens per step",
                         whole(run_.steps.total("target_tokens") / steps));
  a.figures.emplace_back("skipped steps", whole(run_.steps.total("skipped")));
  if (first() != nullptr) {
    auto add_span = [&](std::string_view span) {
      const double seconds = first()->spans.total(span) / steps;
      if (seconds > 0) a.figures.emplace_back(span, human_seconds(seconds));
    };
    for (const StepSpan& span : kStepSpans) add_span(span.name);
    add_span("other");
  }
  a.plots.push_back({.title = "Step time",
                     .y = "seconds",
                     .series = {{"mean", run_.steps.ratio("seconds", "steps")}},
                     .from_zero = true});
  a.plots.push_back(split_plot());
}

// The prediction of preflight, beside the measured mean, and that of the last stretch where steps
// changed during the run.
void ReportMaker::add_prediction(Answer& a) {
  if (run_.predictions.empty()) return;
  const PredictionRecord& f = run_.predictions.back();
  const double steps = std::max(1.0, run_.steps.total("steps"));
  const double mean = run_.steps.total("seconds") / steps;
  const double middle = median(run_.step_seconds);
  if (mean <= 0 || f.seconds <= 0) return;
  const double off = mean / f.seconds - 1;
  a.answer +=
      format("; the prediction was {} ({})", step_seconds_text(f.seconds, mean), off_text(off));
  report_.numbers["forecast"] = {{"seconds", f.seconds},         {"compute", f.compute},
                                 {"compression", f.compression}, {"exposed", f.exposed},
                                 {"bandwidth", f.bandwidth},     {"measured_median", middle},
                                 {"measured_mean", mean},        {"off", off}};
  const RunCourse& course = *report_.bottleneck.course;
  if (!course.changes.empty()) {
    const Change& last = course.changes.back();
    const double late = last.after / f.seconds - 1;
    a.answer += format("; from step {} on, a step took {} ({})",
                       with_commas(static_cast<uint64_t>(last.step)),
                       step_seconds_text(last.after, mean), off_text(late));
    report_.numbers["forecast"]["measured_last_stretch"] = last.after;
    report_.numbers["forecast"]["off_last_stretch"] = late;
  }
  a.figures.emplace_back(
      "predicted before the first step",
      format("{}: {} compute, {}{} waiting for the network (compression {})",
             human_seconds(f.seconds), human_seconds(f.compute),
             f.compression > 0 ? format("{} compression, ", human_seconds(f.compression)) : "",
             human_seconds(f.exposed), f.method));
}

// The same for the prediction of `reigen doctor`, where its output was saved.
void ReportMaker::add_doctor(Answer& a) {
  const std::string path =
      settings_.doctor.empty() ? directory_ + "/doctor.json" : settings_.doctor;
  if (settings_.doctor.empty() && !path_exists(path)) return;
  try {
    const Json found = settings_.doctor.empty() ? read_own_json(path) : read_json(path);
    const Json& step = found.at("forecast");
    const double seconds = step.at("step_seconds");
    const double mean = run_.steps.total("seconds") / std::max(1.0, run_.steps.total("steps"));
    const auto predicted = found.at("bottleneck").get<std::string>();
    a.figures.emplace_back(
        "predicted by doctor",
        format("{} per step ({} compute, {} waiting for the network), measured mean {} ({}); "
               "bottleneck {}, measured {}",
               human_seconds(seconds), human_seconds(step.at("compute_seconds")),
               human_seconds(step.at("waiting_seconds")), human_seconds(mean),
               off_text(mean / seconds - 1), predicted, text_of(report_.bottleneck).verdict));
    const double hours = found.at("hours");
    if (hours > 0) {
      a.figures.emplace_back("predicted by doctor for the run",
                             format("{} for its steps; measured {}, evaluations and checkpoints "
                                    "included",
                                    human_seconds(3600 * hours), human_seconds(time_.wall)));
    }
    report_.numbers["doctor"] = {{"step_seconds", seconds},
                                 {"off", mean / seconds - 1},
                                 {"bottleneck", predicted},
                                 {"hours", hours}};
  } catch (const Json::exception&) {
    if (!settings_.doctor.empty()) {
      throw DataError(
          format("{}: not the output of `reigen doctor --json`; write it with `reigen doctor ... "
                 "--json > {}`",
                 path, path));
    }
    report_.notes.emplace_back("doctor.json", "is not the output of `reigen doctor --json`");
  } catch (const DataError&) {
    if (!settings_.doctor.empty()) throw;
    report_.notes.emplace_back("doctor.json", "cannot be read");
  }
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
