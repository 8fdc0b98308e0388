// The only door to nlohmann-json. Objects keep the order they are written in, so that a manifest
// reads top-down and is byte-identical from run to run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace reigen {

using Json = nlohmann::ordered_json;

// Reads a JSON file; throws DataError naming the file when it is missing or malformed.
Json read_json(const std::string& path);

// Two-space indentation and a final newline: what every JSON file Reigen writes looks like.
std::string pretty(const Json& json);

// All on one line, for messages. Both write U+FFFD for bytes that are not UTF-8: a path may hold
// any byte, and must not end the run that mentions it.
std::string one_line(const Json& json);

}  // namespace reigen
