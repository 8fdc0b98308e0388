// The charts of the live page as JSON: titles, units, series of points, and a summary in words for
// screen readers.
#pragma once

#include "base/json/json.h"
#include "observe/record/run_summary.h"

namespace reigen {

Json live_charts(const RunSummary& run);

}  // namespace reigen
