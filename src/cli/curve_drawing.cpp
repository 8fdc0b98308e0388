#include "cli/curve_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/format.h"

namespace reigen {
namespace {

constexpr size_t kLabelWidth = 7;  // "1.2e-03"

// The characters of a drawing. A cell holds dots_x by dots_y dots; `glyph` turns the set ones, bit
// y * dots_x + x, into a character.
struct Glyphs {
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

// Three heights per character, and a vertical bar through all of them.
std::string plain(unsigned dots) { return std::string(1, " '-'.|.|"[dots]); }

Glyphs braille_glyphs() { return {2, 4, "│", "┤", "└", "─", "┬", "▼", braille}; }
Glyphs ascii_glyphs() { return {1, 3, "|", "+", "+", "-", "+", "v", plain}; }

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
  Drawing(const Curve& curve, const Glyphs& style, size_t width, size_t height)
      : curve_(curve), style_(style), columns_(width - kLabelWidth - 2), rows_(height) {
    // A label on every third line, and few enough to be exact with two digits.
    const auto intervals = static_cast<double>(std::clamp<size_t>((rows_ - 1) / 3, 1, 10));
    const double peak = curve.value(curve.peak);
    tick_ = nice_step(peak / intervals);
    ticks_ = static_cast<size_t>(std::max(1.0, std::ceil(peak / tick_ - 1e-9)));
  }

  std::string text() const {
    // One line above the plot holds the mark of a peak that is at the very top.
    Cells cells(rows_ + 1, std::vector<std::string>(columns_, " "));
    draw_dots(cells);
    bool above = mark_peak(cells);
    std::string out;
    if (above) out += line(std::string(kLabelWidth, ' ') + " " + style_.axis, cells[0]);
    for (size_t row = 0; row < rows_; ++row) out += line(value_label(row), cells[row + 1]);
    return out + step_axis();
  }

 private:
  using Cells = std::vector<std::vector<std::string>>;

  static std::string line(std::string text, const std::vector<std::string>& cells) {
    for (const auto& cell : cells) text += cell;
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  // Counted from the top, in dots.
  size_t dot_row(double value) const {
    const double top = tick_ * static_cast<double>(ticks_);
    const auto last = static_cast<double>(rows_ * style_.dots_y - 1);
    return static_cast<size_t>(std::llround((1 - std::clamp(value / top, 0.0, 1.0)) * last));
  }

  size_t column_of(uint64_t step) const { return (step - 1) * columns_ / curve_.steps; }

  void draw_dots(Cells& cells) const {
    const std::vector<uint64_t>& turns = curve_.turning_points;
    const uint64_t dots = columns_ * style_.dots_x;
    std::vector<std::vector<unsigned>> masks(rows_, std::vector<unsigned>(columns_));
    auto turn = turns.begin();
    size_t before = dot_row(curve_.value(1));
    for (uint64_t x = 0; x < dots; ++x) {
      const uint64_t first = 1 + x * curve_.steps / dots;
      const uint64_t last = std::max(first, (x + 1) * curve_.steps / dots);
      size_t high = dot_row(curve_.value(first));
      size_t low = high;
      auto include = [&](size_t row) {
        high = std::min(high, row);
        low = std::max(low, row);
      };
      include(dot_row(curve_.value(last)));
      while (turn != turns.end() && *turn < first) ++turn;
      for (auto at = turn; at != turns.end() && *at <= last; ++at) {
        include(dot_row(curve_.value(*at)));
      }
      if (before + 1 < high) high = before + 1;  // a jump is drawn as a line, not as a gap
      if (before > low + 1) low = before - 1;
      before = dot_row(curve_.value(last));
      for (size_t y = high; y <= low; ++y) {
        size_t bit = y % style_.dots_y * style_.dots_x + x % style_.dots_x;
        masks[y / style_.dots_y][x / style_.dots_x] |= 1u << bit;
      }
    }
    for (size_t row = 0; row < rows_; ++row) {
      for (size_t c = 0; c < columns_; ++c) cells[row + 1][c] = style_.glyph(masks[row][c]);
    }
  }

  // The cells above the peak are empty. Returns true when the mark is on the line above the plot.
  bool mark_peak(Cells& cells) const {
    const double highest = curve_.value(curve_.peak);
    const size_t row = dot_row(highest) / style_.dots_y;
    const size_t column = column_of(curve_.peak);
    std::string text = format("peak {:.3e} at step {}", highest, with_commas(curve_.peak));
    if (column + 2 + text.size() > columns_ && text.size() + 1 > column) text = "peak";
    const bool right = column + 2 + text.size() <= columns_;
    const size_t start = right ? column + 2 : column - text.size() - 1;
    for (size_t i = 0; i < text.size(); ++i) cells[row][start + i] = std::string(1, text[i]);
    cells[row][column] = style_.peak;
    return row == 0;
  }

  std::string value_label(size_t row) const {
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
  const Glyphs& style_;
  size_t columns_;
  size_t rows_;
  double tick_;
  size_t ticks_;
};

}  // namespace

// The Linux console has a font of 512 characters, without Braille.
DrawingStyle usual_drawing_style() {
  const char* term = std::getenv("TERM");
  const std::string terminal = term == nullptr ? "" : term;
  const bool braille = locale_is_utf8() && terminal != "linux" && terminal != "dumb";
  return braille ? DrawingStyle::kBraille : DrawingStyle::kAscii;
}

std::string draw_curve(const Curve& curve, DrawingStyle style, size_t width, size_t height) {
  const Glyphs glyphs = style == DrawingStyle::kBraille ? braille_glyphs() : ascii_glyphs();
  return Drawing(curve, glyphs, width, height).text();
}

}  // namespace reigen
