#include "config/units.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

struct Quantity {
  double number = 0;
  std::string unit;  // lower case
};

// Takes one number and the letters behind it off the front of `text`.
Quantity take_quantity(std::string_view& text, const char* expected) {
  auto skip_spaces = [&] {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  };
  Quantity quantity;
  skip_spaces();
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (error != std::errc() || quantity.number < 0 || !std::isfinite(quantity.number)) {
    throw ConfigError(expected);
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  skip_spaces();
  while (!text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0) {
    quantity.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    text.remove_prefix(1);
  }
  skip_spaces();
  return quantity;
}

double byte_unit(const std::string& unit, const char* expected) {
  if (unit.empty() || unit == "b") return 1;
  const std::string letters = "kmgt";
  const size_t power = letters.find(unit[0]);
  const std::string rest = unit.substr(1);
  if (power == std::string::npos || (!rest.empty() && rest != "b" && rest != "ib" && rest != "i")) {
    throw ConfigError(expected);
  }
  return std::pow(rest.starts_with('i') ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

double time_unit(const std::string& unit, const char* expected) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m" || unit == "min") return 60;
  if (unit == "h") return 3600;
  if (unit == "d") return 86'400;
  throw ConfigError(expected);
}

// As parse_seconds reads it, in the largest unit that divides it.
std::string duration_text(double seconds) {
  if (seconds == 0) return "0";
  if (std::fmod(seconds, 3600) == 0) return format("{}h", seconds / 3600);
  if (std::fmod(seconds, 60) == 0) return format("{}m", seconds / 60);
  return format("{}s", seconds);
}

}  // namespace

uint64_t parse_bytes(const std::string& text) {
  constexpr const char* kExpected = "expected a size such as 800MB, 6GB or 4GiB";
  std::string_view rest = text;
  const Quantity quantity = take_quantity(rest, kExpected);
  const double bytes = quantity.number * byte_unit(quantity.unit, kExpected);
  if (!rest.empty() || bytes > 1e18) throw ConfigError(kExpected);
  return static_cast<uint64_t>(bytes);
}

double parse_seconds(const std::string& text) {
  constexpr const char* kExpected = "expected a time such as 90s, 45m, 12h, 1d or 1h30m";
  std::string_view rest = text;
  double seconds = 0;
  bool alone = true;
  do {
    const Quantity quantity = take_quantity(rest, kExpected);
    alone = alone && rest.empty();
    if (quantity.unit.empty() && !alone) throw ConfigError(kExpected);  // 1h30: no unit
    seconds += quantity.number * time_unit(quantity.unit, kExpected);
  } while (!rest.empty());
  if (!std::isfinite(seconds)) throw ConfigError(kExpected);
  return seconds;
}

Option bytes_option(const std::string& key, uint64_t& target, const std::string& help) {
  return {.key = key,
          .value_name = "SIZE",
          .help = help,
          .default_text = std::to_string(target),
          .limits = "such as 800MB, 6GB or 4GiB",
          .assign = [&target](const Json& v) { target = parse_bytes(scalar(v)); },
          .current = [&target] { return Json(target); }};
}

Option seconds_option(const std::string& key, double& target, const std::string& help,
                      double least) {
  return {.key = key,
          .value_name = "TIME",
          .help = help,
          .default_text = duration_text(target),
          .limits = "such as 90s, 45m, 12h or 1h30m",
          .assign =
              [&target, least](const Json& v) {
                const double seconds = parse_seconds(scalar(v));
                if (seconds < least) throw ConfigError(format("must be {} s or more", least));
                target = seconds;
              },
          .current = [&target] { return Json(target); }};
}

}  // namespace reigen
