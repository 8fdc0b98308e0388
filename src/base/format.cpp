#include "base/format.h"

#include <cmath>

namespace reigen {

std::string with_commas(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1000) return format("{} B", bytes);
  const char* units[] = {"kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  int unit = -1;
  do {
    value /= 1000;
    ++unit;
  } while (value >= 999.5 && unit < 4);
  return format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 0.0995) return format("{:.1f} ms", 1000 * seconds);
  if (seconds < 0.995) return format("{:.2f} s", seconds);
  if (seconds < 59.95) return format("{:.1f} s", seconds);
  auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return format("{}m {:02}s", whole / 60, whole % 60);
  return format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "0.0%";
  return format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string counted(uint64_t n, std::string_view noun) {
  return format("{} {}{}", with_commas(n), noun, n == 1 ? "" : "s");
}

std::string human_flops(double flops_per_second) {
  const char* units[] = {"MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
  double value = flops_per_second / 1e6;
  int unit = 0;
  for (; value >= 999.5 && unit < 3; ++unit) value /= 1000;
  return format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace reigen
