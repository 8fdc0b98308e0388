// The charts of the live page as JSON: titles, units, series of points and the words that stand for
// them where they cannot be seen.
#pragma once

#include "base/json.h"
#include "observe/record/run_summary.h"

namespace reigen {

Json live_charts(const RunSummary& run);

}  // namespace reigen
