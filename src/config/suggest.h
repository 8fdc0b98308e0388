// "Did you mean": the known name nearest to one that was mistyped.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reigen {

// By edit distance with transpositions; empty when no name is near enough to be a likely typo.
std::optional<std::string> nearest(const std::string& typed, const std::vector<std::string>& known);

}  // namespace reigen
