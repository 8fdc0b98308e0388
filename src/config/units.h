// Quantities with a unit, as people write them: sizes in bytes and durations.
#pragma once

#include <cstdint>
#include <string>

#include "config/schema.h"

namespace reigen {

// "6GB", "512 MB", "4GiB", "1000000": decimal unless the unit has an i. Throws ConfigError.
uint64_t parse_bytes(const std::string& text);

// "90s", "45m", "12h", "1d", "1h30m", or plain seconds. Throws ConfigError.
double parse_seconds(const std::string& text);

// Options whose value is a size or a duration.
Option bytes_option(const std::string& key, uint64_t& target, const std::string& help);
Option seconds_option(const std::string& key, double& target, const std::string& help,
                      double least = 0);

}  // namespace reigen
