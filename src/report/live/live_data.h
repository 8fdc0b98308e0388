// The content of the live page as JSON: the state of the run, current figures, verdicts, charts, a
// row for each host and each rank (of an elastic job: each present worker), sample translations and
// the end of the log.
//
// Its size does not grow with the run, so that a request every two seconds stays cheap.
#pragma once

#include <string>

#include "base/json/json.h"
#include "observe/record/run_reader.h"
#include "report/run_state.h"

namespace reigen {

// `reader` is refreshed; `now` is in seconds since 1970.
Json live_data(const std::string& run_directory, const RunReader& reader, double now);

// The same for a run that cannot be shown yet.
Json live_placeholder(const std::string& run_directory, const char* kind, const std::string& text);

}  // namespace reigen
