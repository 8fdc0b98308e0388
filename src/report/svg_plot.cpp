#include "report/svg_plot.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace reigen {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 240;
constexpr double kLeft = 62;
constexpr double kRight = 12;
constexpr double kTop = 12;
constexpr double kBottom = 34;

struct Range {
  double low = INFINITY;
  double high = -INFINITY;
  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
double round_step(double least) {
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (double times : {1.0, 2.0, 5.0}) {
    if (times * decade >= least * (1 - 1e-9)) return times * decade;
  }
  return 10 * decade;
}

std::string label(double value, double step) {
  const double size = std::abs(value);
  if (size >= 1e9) return format("{:g}G", value / 1e9);
  if (size >= 1e6) return format("{:g}M", value / 1e6);
  if (size >= 1e4) return format("{:g}k", value / 1e3);
  if (size > 0 && size < 1e-3) return format("{:.1e}", value);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return format("{:.{}f}", value, digits);
}

class Axes {
 public:
  explicit Axes(const Plot& plot) {
    for (const PlotSeries& series : plot.series) {
      for (const auto& [x, y] : series.points) {
        if (!std::isfinite(y)) continue;
        x_.hold(x);
        y_.hold(y);
      }
    }
    if (plot.from_zero) y_.hold(0);
    if (x_.high <= x_.low) x_.high = x_.low + 1;
    if (y_.high <= y_.low) y_.high = y_.low + (y_.low == 0 ? 1 : std::abs(y_.low) * 0.1);
    step_x_ = round_step((x_.high - x_.low) / 6);
    step_y_ = round_step((y_.high - y_.low) / 4);
    y_.low = std::floor(y_.low / step_y_ + 1e-9) * step_y_;
    y_.high = std::ceil(y_.high / step_y_ - 1e-9) * step_y_;
  }
  double left(double x) const {
    return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double top(double y) const {
    return kTop + (y_.high - y) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  std::string grid() const {
    std::string out;
    for (double y = y_.low; y <= y_.high + step_y_ / 2; y += step_y_) {
      const double value = std::abs(y) < step_y_ / 1e6 ? 0 : y;
      out += format(R"(<path class="grid" d="M{:.1f} {:.1f}H{:.1f}"/>)", kLeft, top(y),
                    kWidth - kRight);
      out += format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 6,
                    top(y) + 4, label(value, step_y_));
    }
    for (double x = std::ceil(x_.low / step_x_) * step_x_; x <= x_.high * (1 + 1e-12);
         x += step_x_) {
      const bool at_edge = left(x) > kWidth - 2 * kRight;
      out += format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)",
                    at_edge ? kWidth - 2 : left(x), kHeight - kBottom + 16,
                    at_edge ? "end" : "middle", label(x, step_x_));
    }
    return out;
  }

 private:
  Range x_;
  Range y_;
  double step_x_ = 1;
  double step_y_ = 1;
};

// A colour; after the last colour, the colours again with dotted lines.
std::string look_of(size_t number) {
  constexpr size_t kColours = 6;
  return format("s{}{}", number % kColours, number < kColours ? "" : " again");
}

std::string drawn(const PlotSeries& series, const Axes& axes, const std::string& look) {
  std::string path;
  std::string marks;
  bool pen_down = false;
  for (const auto& [x, y] : series.points) {
    if (!std::isfinite(y)) {
      pen_down = false;
      continue;
    }
    path += format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", axes.left(x), axes.top(y));
    pen_down = true;
    if (series.dots || series.points.size() == 1) {
      marks += format(R"(<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{:g}: {:g})"
                      "</title></circle>",
                      look, axes.left(x), axes.top(y), x, y);
    }
  }
  return format(R"(<path class="line {}{}" d="{}"/>)", look, series.dashed ? " dashed" : "", path) +
         marks;
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<PlotSeries> dots_of(
    const std::map<std::string, std::vector<std::pair<double, double>>>& points) {
  std::vector<PlotSeries> series;
  series.reserve(points.size());
  for (const auto& [name, values] : points) series.push_back({name, values, true});
  return series;
}

bool is_empty(const Plot& plot) {
  return std::none_of(plot.series.begin(), plot.series.end(), [](const PlotSeries& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const auto& point) { return std::isfinite(point.second); });
  });
}

std::string summary_of(const Plot& plot) {
  std::string text;
  for (const PlotSeries& series : plot.series) {
    if (series.points.empty()) continue;
    Range range;
    for (const auto& [x, y] : series.points) {
      if (std::isfinite(y)) range.hold(y);
    }
    text +=
        format("{}: from {:.4g} to {:.4g}, between {:.4g} and {:.4g}. ", series.name,
               series.points.front().second, series.points.back().second, range.low, range.high);
  }
  return text;
}

std::string svg_of(const Plot& plot) {
  if (is_empty(plot)) return "";
  const Axes axes(plot);
  std::string out =
      format(R"(<figure><figcaption>{}<span class="unit">{}</span></figcaption>)"
             R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}. {}">)",
             escaped_html(plot.title), escaped_html(plot.y.empty() ? "" : ", " + plot.y), kWidth,
             kHeight, escaped_html(plot.title), escaped_html(summary_of(plot)));
  out += axes.grid();
  out += format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kWidth - kRight, kHeight - 4,
                escaped_html(plot.x));
  std::string legend;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    out += drawn(plot.series[i], axes, look_of(i));
    legend += format(R"(<li><span class="key {}"></span>{}</li>)", look_of(i),
                     escaped_html(plot.series[i].name));
  }
  out += "</svg>";
  if (plot.series.size() > 1) out += "<ul class=\"legend\">" + legend + "</ul>";
  return out + "</figure>\n";
}

}  // namespace reigen
