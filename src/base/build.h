// Which build of reigen this is.
#pragma once

#include <string>

namespace reigen {

std::string version_line();  // "reigen 0.2.0 (2524397)"

}  // namespace reigen
