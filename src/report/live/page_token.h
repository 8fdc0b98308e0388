// The access token of a live page, and the sources that a user may give it by.
#pragma once

#include <string>

#include "config/report_options.h"

namespace reigen {

inline constexpr const char* kPageTokenVariable = "REIGEN_DASHBOARD_TOKEN";

// The token that the user chose, by option, file or environment variable; empty if none. Throws
// ConfigError if it is too long or its file is readable by other users.
std::string given_page_token(const PageOptions& options);

// The same, or a random one.
std::string page_token(const PageOptions& options);

}  // namespace reigen
