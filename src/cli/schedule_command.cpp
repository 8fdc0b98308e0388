// `reigen schedule`: the learning-rate curve as a table, a drawing, JSON or CSV.
#include "optim/schedule.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/curve_drawing.h"
#include "config/recipe.h"

namespace reigen {
namespace {

constexpr int64_t kBaseWidth = 512;  // of the base preset; there is no model here
constexpr uint64_t kJsonPoints = 1000;
constexpr uint64_t kMostJsonPoints = 1'000'000;

struct Schedule {
  ScheduleOptions options;
  uint64_t steps;
  uint64_t peak;

  double rate(uint64_t step) const { return learning_rate(options, step); }
};

// Steps of the table, with a remark where there is one: landmarks, the peak, powers of ten and
// quarters of the run.
std::map<uint64_t, std::string> notable_steps(const Schedule& schedule) {
  std::map<uint64_t, std::string> notable;
  for (uint64_t step = 1; step <= schedule.steps; step *= 10) notable[step];
  for (uint64_t quarter : {1, 2, 3}) {
    uint64_t step = schedule.steps * quarter / 4;
    if (step > 0) notable[step];
  }
  auto add = [&](uint64_t step, const std::string& what) {
    std::string& text = notable[step];
    text += (text.empty() ? "" : ", ") + what;
  };
  for (const Landmark& mark : landmarks(schedule.options, schedule.steps))
    add(mark.step, mark.what);
  add(schedule.peak, "peak");
  return notable;
}

// "noam: warmup-steps 8000, factor 2, ...", wrapped at the width of the drawing.
std::string settings_text(const ScheduleOptions& options, size_t width) {
  const Json settings = schedule_json(options);
  std::string out = schedule_name(options.kind) + ":";
  size_t line_start = 0;
  const char* before = "";
  for (const auto& [key, value] : settings.items()) {
    if (key == "kind") continue;
    std::string part =
        format("{} {}", key,
               value.is_number_float() ? format("{}", value.get<double>()) : one_line(value));
    out += before;
    if (out.size() - line_start + part.size() + 2 > width) {
      line_start = out.size() + 1;
      out += "\n ";
    }
    out += " " + part;
    before = ",";
  }
  return out + "\n";
}

std::string text_report(const Schedule& schedule, const ScheduleCommandOptions& options) {
  Table table;
  table.row({"", "step", "rate", "of peak"});
  const double peak = schedule.rate(schedule.peak);
  for (const auto& [step, what] : notable_steps(schedule)) {
    const double rate = schedule.rate(step);
    table.row(
        {what, with_commas(step), format("{:.3e}", rate), format("{:.1f}%", 100 * rate / peak)});
  }
  const DrawingStyle style = options.ascii ? DrawingStyle::kAscii : usual_drawing_style();
  const auto width = static_cast<size_t>(options.width);
  Curve drawn{.value = [&](uint64_t step) { return schedule.rate(step); },
              .steps = schedule.steps,
              .peak = schedule.peak};
  for (const Landmark& mark : landmarks(schedule.options, schedule.steps)) {
    drawn.turning_points.push_back(mark.step);
  }
  return settings_text(schedule.options, width) +
         (options.chosen.empty() ? "" : options.chosen + "\n") + "\n" + table.text() +
         "\nLearning rate by optimizer step:\n\n" +
         draw_curve(drawn, style, width, static_cast<size_t>(options.height));
}

// The first step, every Nth and the last.
void for_steps(uint64_t steps, uint64_t every, const std::function<void(uint64_t)>& body) {
  uint64_t step = 1;
  for (; step < steps; step = step / every * every + every) body(step);
  body(steps);
}

void print_csv(const Schedule& schedule, uint64_t every) {
  constexpr size_t kChunk = 1 << 16;
  std::string out = "step,rate\n";
  for_steps(schedule.steps, every, [&](uint64_t step) {
    out += format("{},{}\n", step, schedule.rate(step));
    if (out.size() < kChunk) return;
    check_interrupt();
    print(out);
    out.clear();
  });
  print(out);
}

Json json_report(const Schedule& schedule, uint64_t every) {
  if (schedule.steps / every > kMostJsonPoints) {
    throw ConfigError(
        format("--every {} of {} steps gives more than the {} points that JSON may have; use {} "
               "or more, or --csv, which has no limit",
               every, schedule.steps, kMostJsonPoints, schedule.steps / kMostJsonPoints + 1));
  }
  Json json = {{"schedule", schedule_json(schedule.options)}, {"steps", schedule.steps}};
  json["peak"] = {{"step", schedule.peak}, {"rate", schedule.rate(schedule.peak)}};
  json["table"] = Json::array();
  for (const auto& [step, what] : notable_steps(schedule)) {
    json["table"].push_back({{"step", step}, {"rate", schedule.rate(step)}, {"what", what}});
  }
  Json& points = json["curve"] = {{"step", Json::array()}, {"rate", Json::array()}};
  for_steps(schedule.steps, every, [&](uint64_t step) {
    points["step"].push_back(step);
    points["rate"].push_back(schedule.rate(step));
  });
  return json;
}

}  // namespace

void run_schedule(const ScheduleCommandOptions& given) {
  ScheduleCommandOptions options = given;
  apply_recipe(options);
  if (options.json && options.csv) {
    throw ConfigError("--json and --csv exclude each other; choose one");
  }
  if (options.every > 0 && !options.json && !options.csv) {
    throw ConfigError(format("--every {} needs --json or --csv; add one of them", options.every));
  }
  Schedule schedule{.options = resolve_schedule(options.schedule, kBaseWidth),
                    .steps = static_cast<uint64_t>(options.steps)};
  schedule.options.last_step = options.steps;
  check_schedule(schedule.options);
  schedule.options = with_planned_decay(schedule.options);
  schedule.peak = peak_step(schedule.options, schedule.steps);
  for (const auto& key : ignored_settings(options.schedule)) {
    log_warning(format("--{} is not used by {}", key, schedule_name(schedule.options.kind)));
  }
  const auto every = static_cast<uint64_t>(options.every);
  if (options.csv) {
    print_csv(schedule, std::max<uint64_t>(every, 1));
  } else if (options.json) {
    print(
        pretty(json_report(schedule, every > 0 ? every : 1 + (schedule.steps - 1) / kJsonPoints)));
  } else {
    print(text_report(schedule, options));
  }
}

}  // namespace reigen
