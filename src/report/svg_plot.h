// A line plot as SVG text within a page. Colours come from the page's style, so that they follow
// its light and dark schemes; screen readers get the title and a summary.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reigen {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dots = false;    // a mark at each point, for few and separate points
  bool dashed = false;  // expected, not measured
};

struct Plot {
  std::string title;
  std::string x = "step";
  std::string y;
  std::vector<PlotSeries> series;
  bool from_zero = false;
};

// A series of dots for each name.
std::vector<PlotSeries> dots_of(
    const std::map<std::string, std::vector<std::pair<double, double>>>& points);

bool is_empty(const Plot& plot);
std::string svg_of(const Plot& plot);
std::string summary_of(const Plot& plot);  // for screen readers

std::string escaped_html(std::string_view text);

}  // namespace reigen
