// The reference of the measurement log's fields, generated from the field tables.
#pragma once

#include <string>

namespace reigen {

std::string log_reference();  // Markdown: docs/measurement-log.md

}  // namespace reigen
