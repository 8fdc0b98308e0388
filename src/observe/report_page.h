// The page of one or several reports: HTML that needs nothing else, in light and dark.
#pragma once

#include <string>
#include <vector>

#include "observe/report.h"

namespace reigen {

std::string report_page(const std::vector<Report>& reports);

// The live page: the same, which asks for `content` again every two seconds.
std::string live_page(const Report& report);
std::string page_content(const std::vector<Report>& reports);

}  // namespace reigen
