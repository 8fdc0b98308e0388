// The only door to fmt, and the one format for counts, sizes and times.
//
// All output uses these functions, so that a number looks the same in a log line, a table and an
// error message.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace reigen {

using fmt::format;

std::string with_commas(uint64_t n);        // 4,524,868
std::string human_bytes(uint64_t bytes);    // 1.88 GB (decimal, as disks and networks count)
std::string human_seconds(double seconds);  // 0.42 s, 1m 05s, 2h 03m
std::string percent(uint64_t part, uint64_t whole);      // 12.3%
std::string counted(uint64_t n, std::string_view noun);  // 1 step, 4,096 steps
std::string human_flops(double flops_per_second);        // 381 TFLOP/s

}  // namespace reigen
