// The last lines of a run's log, without reading the rest.
#pragma once

#include <string>
#include <vector>

namespace reigen {

// Fewer when the file is shorter or its lines are very long; none when it cannot be read, or is a
// link or no regular file.
std::vector<std::string> log_tail(const std::string& path, size_t lines);

}  // namespace reigen
