// YAML text as a tree of maps, lists and strings. The only user of yaml-cpp.
#pragma once

#include <string>

#include "base/json/json.h"

namespace reigen {

// Scalars stay strings: an option's own type decides their meaning. Throws ConfigError with file,
// line and column for malformed text, a duplicate key, an alias loop or absurd nesting.
Json parse_yaml(const std::string& text, const std::string& name);

// Text that parse_yaml reads back: maps in block style, lists on one line.
std::string to_yaml(const Json& tree);

}  // namespace reigen
