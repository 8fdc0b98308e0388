// "Did you mean": the known name nearest to one that was mistyped.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reigen {

// By edit distance with transpositions; empty when nothing is near enough to be a likely slip.
std::optional<std::string> nearest(const std::string& typed, const std::vector<std::string>& known);

}  // namespace reigen
