// The live page's own files and the chart library, as text that is part of the program: made from
// web/ and Debian's libjs-chart.js at build (cmake/embed.cmake), so that nothing is fetched.
#pragma once

#include <string_view>

namespace reigen::web {

extern const std::string_view live_html;
extern const std::string_view live_css;
extern const std::string_view live_js;
extern const std::string_view chart_js;

}  // namespace reigen::web
