// The page of one or several reports: a single HTML file without external resources, light and
// dark.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace reigen {

std::string report_page(const std::vector<Report>& reports);

}  // namespace reigen
