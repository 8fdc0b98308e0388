// The only door to nlohmann-json. Objects preserve insertion order, so that a manifest reads
// top-down and is byte-identical from run to run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Compiled once, in json.cpp: more than a second for every file that uses it.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace reigen {

using Json = nlohmann::ordered_json;

// Limits of JSON from outside. Copies and dumps recurse once per level, and an ordered object
// compares each new key with all before it: a million keys would take minutes.
inline constexpr size_t kMostJsonLevels = 64;
inline constexpr size_t kMostJsonMembers = 1000;  // of one object

// Throws DataError, which begins with `name`, when `text` is malformed or beyond those limits.
Json parse_json(std::string_view text, const std::string& name);

// Reads a JSON file; throws DataError naming the file when it is missing or malformed.
Json read_json(const std::string& path);
Json read_own_json(const std::string& path);  // of a run, by read_own_file()

// Two-space indentation and a final newline, as in every JSON file that Reigen writes.
std::string pretty(const Json& json);

// One line without a newline, for messages. Both functions write U+FFFD for bytes that are not
// UTF-8: a path may contain any byte.
std::string one_line(const Json& json);

}  // namespace reigen
