// The last lines of a text file, without reading the rest.
#pragma once

#include <string>
#include <vector>

namespace reigen {

// Fewer where the file is shorter or its lines are very long; none where it cannot be read.
std::vector<std::string> log_tail(const std::string& path, size_t lines);

}  // namespace reigen
