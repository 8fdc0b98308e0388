// `reigen schedule`: the learning-rate curve as a table, a drawing, JSON or CSV.
//
// The drawing is exact: a column covers a range of steps, and between landmarks a rate only rises
// or only falls, so the range's ends and the landmarks in it give its highest and lowest rate.
#include "optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"

namespace reigen {
namespace {

constexpr int64_t kBaseWidth = 512;  // of the base preset, where there is no model to ask
constexpr uint64_t kJsonPoints = 1000;
constexpr uint64_t kMostJsonPoints = 1'000'000;
constexpr size_t kLabelWidth = 7;  // "1.2e-03"

struct Curve {
  ScheduleOptions options;
  uint64_t steps;
  uint64_t peak;

  double rate(uint64_t step) const { return learning_rate(options, step); }
};

// What the drawing is made of. A cell holds dots_x by dots_y dots; `glyph` turns those that are
// set, bit y * dots_x + x, into a character.
struct Style {
  size_t dots_x;
  size_t dots_y;
  std::string axis, tick, corner, line, mark, peak;
  std::function<std::string(unsigned)> glyph;
};

// U+2800 and a bit per dot, the lowest row of four last because it was added last to Braille.
std::string braille(unsigned dots) {
  constexpr std::array<unsigned, 8> kBits = {0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80};
  unsigned bits = 0;
  for (size_t d = 0; d < kBits.size(); ++d) bits |= (dots >> d & 1) * kBits[d];
  if (bits == 0) return " ";
  return {'\xE2', static_cast<char>(0xA0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3F))};
}

// Three heights per character, and a stroke through all of them.
std::string plain(unsigned dots) { return std::string(1, " '-'.|.|"[dots]); }

Style unicode_style() { return {2, 4, "│", "┤", "└", "─", "┬", "▼", braille}; }
Style ascii_style() { return {1, 3, "|", "+", "+", "-", "+", "v", plain}; }

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

// The Linux console has a font of 512 characters, without Braille.
bool draws_unicode() {
  const char* term = std::getenv("TERM");
  const std::string terminal = term == nullptr ? "" : term;
  return locale_is_utf8() && terminal != "linux" && terminal != "dumb";
}

// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
double nice_step(double least) {
  double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (double times : {1.0, 2.0, 5.0}) {
    if (times * decade >= least * (1 - 1e-9)) return times * decade;
  }
  return 10 * decade;
}

class Drawing {
 public:
  Drawing(const Curve& curve, const Style& style, size_t width, size_t height)
      : curve_(curve), style_(style), columns_(width - kLabelWidth - 2), rows_(height) {
    // A label on every third line, and few enough for two digits to tell them apart exactly.
    const auto intervals = static_cast<double>(std::clamp<size_t>((rows_ - 1) / 3, 1, 10));
    const double peak = curve.rate(curve.peak);
    tick_ = nice_step(peak / intervals);
    ticks_ = static_cast<size_t>(std::max(1.0, std::ceil(peak / tick_ - 1e-9)));
  }

  std::string text() const {
    // One line above the plot, for the peak's mark where the peak is at the very top.
    Cells cells(rows_ + 1, std::vector<std::string>(columns_, " "));
    draw_curve(cells);
    bool above = mark_peak(cells);
    std::string out;
    if (above) out += line(std::string(kLabelWidth, ' ') + " " + style_.axis, cells[0]);
    for (size_t row = 0; row < rows_; ++row) out += line(rate_label(row), cells[row + 1]);
    return out + step_axis();
  }

 private:
  using Cells = std::vector<std::vector<std::string>>;

  static std::string line(std::string text, const std::vector<std::string>& cells) {
    for (const auto& cell : cells) text += cell;
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  // Counted from the top, in dots.
  size_t dot_row(double rate) const {
    const double top = tick_ * static_cast<double>(ticks_);
    const auto last = static_cast<double>(rows_ * style_.dots_y - 1);
    return static_cast<size_t>(std::llround((1 - std::clamp(rate / top, 0.0, 1.0)) * last));
  }

  size_t column_of(uint64_t step) const { return (step - 1) * columns_ / curve_.steps; }

  void draw_curve(Cells& cells) const {
    const std::vector<Landmark> marks = landmarks(curve_.options, curve_.steps);
    const uint64_t dots = columns_ * style_.dots_x;
    std::vector<std::vector<unsigned>> masks(rows_, std::vector<unsigned>(columns_));
    auto mark = marks.begin();
    size_t before = dot_row(curve_.rate(1));
    for (uint64_t x = 0; x < dots; ++x) {
      const uint64_t first = 1 + x * curve_.steps / dots;
      const uint64_t last = std::max(first, (x + 1) * curve_.steps / dots);
      size_t high = dot_row(curve_.rate(first));
      size_t low = high;
      auto include = [&](size_t row) {
        high = std::min(high, row);
        low = std::max(low, row);
      };
      include(dot_row(curve_.rate(last)));
      while (mark != marks.end() && mark->step < first) ++mark;
      for (auto at = mark; at != marks.end() && at->step <= last; ++at) {
        include(dot_row(curve_.rate(at->step)));
      }
      if (before + 1 < high) high = before + 1;  // a jump is drawn as a line, not as a gap
      if (before > low + 1) low = before - 1;
      before = dot_row(curve_.rate(last));
      for (size_t y = high; y <= low; ++y) {
        size_t bit = y % style_.dots_y * style_.dots_x + x % style_.dots_x;
        masks[y / style_.dots_y][x / style_.dots_x] |= 1u << bit;
      }
    }
    for (size_t row = 0; row < rows_; ++row) {
      for (size_t c = 0; c < columns_; ++c) cells[row + 1][c] = style_.glyph(masks[row][c]);
    }
  }

  // Nothing is drawn above the peak, so there is room; true when that is the line above the plot.
  bool mark_peak(Cells& cells) const {
    const double rate = curve_.rate(curve_.peak);
    const size_t row = dot_row(rate) / style_.dots_y;
    const size_t column = column_of(curve_.peak);
    std::string text = format("peak {:.3e} at step {}", rate, with_commas(curve_.peak));
    if (column + 2 + text.size() > columns_ && text.size() + 1 > column) text = "peak";
    const bool right = column + 2 + text.size() <= columns_;
    const size_t start = right ? column + 2 : column - text.size() - 1;
    for (size_t i = 0; i < text.size(); ++i) cells[row][start + i] = std::string(1, text[i]);
    cells[row][column] = style_.peak;
    return row == 0;
  }

  std::string rate_label(size_t row) const {
    for (size_t k = 0; k <= ticks_; ++k) {
      const double value = tick_ * static_cast<double>(k);
      if (dot_row(value) / style_.dots_y != row) continue;
      std::string label = k == 0 ? "0" : format("{:.1e}", value);
      return format("{:>{}} {}", label, kLabelWidth, style_.tick);
    }
    return std::string(kLabelWidth, ' ') + " " + style_.axis;
  }

  std::string step_axis() const {
    const size_t margin = kLabelWidth + 2;
    const size_t label_width = with_commas(curve_.steps).size() + 3;
    const auto most = static_cast<double>(std::max<size_t>(1, columns_ / label_width));
    const auto steps = static_cast<double>(curve_.steps);
    const auto every = static_cast<uint64_t>(std::llround(std::max(1.0, nice_step(steps / most))));
    std::vector<std::string> axis(columns_, style_.line);
    std::string labels(margin + columns_, ' ');
    auto place = [&](uint64_t step) {
      const std::string label = with_commas(step);
      const size_t column = column_of(step);
      const size_t at = std::min(margin + column - label.size() / 2, labels.size() - label.size());
      const std::string around = labels.substr(at - 1, label.size() + 2);
      if (around.find_first_not_of(' ') != std::string::npos) return;
      labels.replace(at, label.size(), label);
      axis[column] = style_.mark;
    };
    place(1);
    place(curve_.steps);
    for (uint64_t step = every; step < curve_.steps; step += every) place(step);
    return line(std::string(kLabelWidth, ' ') + " " + style_.corner, axis) + line(labels, {});
  }

  const Curve& curve_;
  const Style& style_;
  size_t columns_;
  size_t rows_;
  double tick_;
  size_t ticks_;
};

// Step to what is worth saying of it: landmarks, the peak, powers of ten and quarters of the run.
std::map<uint64_t, std::string> notable_steps(const Curve& curve) {
  std::map<uint64_t, std::string> notable;
  for (uint64_t step = 1; step <= curve.steps; step *= 10) notable[step];
  for (uint64_t quarter : {1, 2, 3}) {
    uint64_t step = curve.steps * quarter / 4;
    if (step > 0) notable[step];
  }
  auto add = [&](uint64_t step, const std::string& what) {
    std::string& text = notable[step];
    text += (text.empty() ? "" : ", ") + what;
  };
  for (const Landmark& mark : landmarks(curve.options, curve.steps)) add(mark.step, mark.what);
  add(curve.peak, "peak");
  return notable;
}

// "noam: warmup-steps 8000, factor 2, ...", in lines as wide as the drawing.
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

std::string text_report(const Curve& curve, const ScheduleCommandOptions& options) {
  Table table;
  table.row({"", "step", "rate", "of peak"});
  const double peak = curve.rate(curve.peak);
  for (const auto& [step, what] : notable_steps(curve)) {
    const double rate = curve.rate(step);
    table.row(
        {what, with_commas(step), format("{:.3e}", rate), format("{:.1f}%", 100 * rate / peak)});
  }
  const Style style = options.ascii || !draws_unicode() ? ascii_style() : unicode_style();
  const auto width = static_cast<size_t>(options.width);
  Drawing drawing(curve, style, width, static_cast<size_t>(options.height));
  return settings_text(curve.options, width) + "\n" + table.text() +
         "\nLearning rate by optimizer step:\n\n" + drawing.text();
}

// The first step, every Nth and the last.
void for_steps(uint64_t steps, uint64_t every, const std::function<void(uint64_t)>& body) {
  uint64_t step = 1;
  for (; step < steps; step = step / every * every + every) body(step);
  body(steps);
}

void print_csv(const Curve& curve, uint64_t every) {
  constexpr size_t kChunk = 1 << 16;
  std::string out = "step,rate\n";
  for_steps(curve.steps, every, [&](uint64_t step) {
    out += format("{},{}\n", step, curve.rate(step));
    if (out.size() < kChunk) return;
    check_interrupt();
    print(out);
    out.clear();
  });
  print(out);
}

Json json_report(const Curve& curve, uint64_t every) {
  if (curve.steps / every > kMostJsonPoints) {
    throw ConfigError(
        format("--every {} of {} steps is over the {} points JSON may hold; use {} "
               "or more, or --csv, which has no limit",
               every, curve.steps, kMostJsonPoints, curve.steps / kMostJsonPoints + 1));
  }
  Json json = {{"schedule", schedule_json(curve.options)}, {"steps", curve.steps}};
  json["peak"] = {{"step", curve.peak}, {"rate", curve.rate(curve.peak)}};
  json["table"] = Json::array();
  for (const auto& [step, what] : notable_steps(curve)) {
    json["table"].push_back({{"step", step}, {"rate", curve.rate(step)}, {"what", what}});
  }
  Json& points = json["curve"] = {{"step", Json::array()}, {"rate", Json::array()}};
  for_steps(curve.steps, every, [&](uint64_t step) {
    points["step"].push_back(step);
    points["rate"].push_back(curve.rate(step));
  });
  return json;
}

}  // namespace

void run_schedule(const ScheduleCommandOptions& options) {
  if (options.json && options.csv) {
    throw ConfigError("--json and --csv were both given; choose one");
  }
  if (options.every > 0 && !options.json && !options.csv) {
    throw ConfigError(format("--every {} is for --json and --csv; add one of them", options.every));
  }
  Curve curve{.options = resolve_schedule(options.schedule, kBaseWidth),
              .steps = static_cast<uint64_t>(options.steps)};
  check_schedule(curve.options);
  curve.peak = peak_step(curve.options, curve.steps);
  for (const auto& key : ignored_settings(options.schedule)) {
    log_warning(format("--{} is not used by {}", key, schedule_name(curve.options.kind)));
  }
  const auto every = static_cast<uint64_t>(options.every);
  if (options.csv) {
    print_csv(curve, std::max<uint64_t>(every, 1));
  } else if (options.json) {
    print(pretty(json_report(curve, every > 0 ? every : 1 + (curve.steps - 1) / kJsonPoints)));
  } else {
    print(text_report(curve, options));
  }
}

}  // namespace reigen
