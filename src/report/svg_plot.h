// A line plot as SVG text that stands in a page: colours come from the page's style, so that it
// follows light and dark, and a reader that cannot see it gets its title and a summary.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reigen {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dots = false;    // a mark at each point, for few and separate ones
  bool dashed = false;  // for what is expected, not measured
};

struct Plot {
  std::string title;
  std::string x = "step";
  std::string y;
  std::vector<PlotSeries> series;
  bool from_zero = false;
};

bool is_empty(const Plot& plot);
std::string svg_of(const Plot& plot);
std::string summary_of(const Plot& plot);  // for those who hear the page

std::string escaped_html(std::string_view text);

}  // namespace reigen
