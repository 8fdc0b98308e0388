// The page of one or several reports: a single HTML file without external resources, light and
// dark.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace reigen {

std::string report_page(const std::vector<Report>& reports,
                        const std::vector<std::string>& comparison = {});

// The content policy of that page, in the file and when it is served: its own style, no script.
inline constexpr const char* kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
    "'none'";

}  // namespace reigen
