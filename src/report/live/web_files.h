// The files of the live page and the chart library, embedded in the program at build from web/ and
// Debian's libjs-chart.js (cmake/embed.cmake), so that the page loads nothing from the internet.
#pragma once

#include <string_view>

namespace reigen::web {

extern const std::string_view live_html;
extern const std::string_view live_css;
extern const std::string_view live_js;
extern const std::string_view chart_js;

}  // namespace reigen::web
