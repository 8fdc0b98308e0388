// The screen of `reigen top`: a run as lines for a plain terminal of any width.
#pragma once

#include <string>
#include <vector>

#include "observe/record/run_summary.h"

namespace reigen {

// No line is wider than `width` columns. `now` is in seconds since 1970.
std::vector<std::string> top_picture(const std::string& name, const RunSummary& run, double now,
                                     size_t width);

}  // namespace reigen
