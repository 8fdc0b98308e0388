#include "config/doctor_options.h"

#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "config/units.h"

namespace reigen {
namespace {

constexpr int64_t kMostWorkers = 100'000;

// A number and the letters behind it, in lower case.
std::pair<double, std::string> number_and_unit(const std::string& text, const char* expected) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number > 0)) throw ConfigError(format("'{}': {}", text, expected));
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return {number, unit};
}

double parse_latency(const std::string& text) {
  constexpr const char* kExpected = "expected a latency such as 50us, 2ms or 0.1s";
  const auto [number, unit] = number_and_unit(text, kExpected);
  if (unit == "us") return number * 1e-6;
  if (unit == "ms") return number * 1e-3;
  if (unit == "s") return number;
  throw ConfigError(format("'{}': {}", text, kExpected));
}

Option simulate_option(DoctorOptions& o) {
  return {.key = "simulate",
          .value_name = "JOB",
          .help =
              "job on other hosts to extrapolate to: workers=64,link=10gbit, optionally with "
              "latency=50us and batch=grows (otherwise the batch is divided among the workers)",
          .default_text = "",
          .limits = "such as workers=64,link=10gbit",
          .assign =
              [&o](const Json& v) {
                o.simulate_text = scalar(v);
                o.simulate = parse_simulate(o.simulate_text);
              },
          .current = [&o] { return Json(o.simulate_text); }};
}

}  // namespace

double parse_rate(const std::string& text) {
  constexpr const char* kExpected = "expected a rate such as 100mbit or 10gbit";
  const auto [number, unit] = number_and_unit(text, kExpected);
  if (unit == "kbit") return number * 1e3 / 8;
  if (unit == "mbit") return number * 1e6 / 8;
  if (unit == "gbit") return number * 1e9 / 8;
  throw ConfigError(format("'{}': {}", text, kExpected));
}

SimulateSetting parse_simulate(const std::string& text) {
  SimulateSetting setting;
  if (text.empty()) return setting;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "workers") {
      setting.workers = parse_integer(value, 1, kMostWorkers);
    } else if (key == "link") {
      setting.bandwidth = parse_rate(value);
    } else if (key == "latency") {
      setting.latency = parse_latency(value);
    } else if (key == "batch" && (value == "grows" || value == "shared")) {
      setting.same_share = value == "grows";
    } else {
      throw ConfigError(
          format("'{}': expected workers=N, link=RATE, latency=TIME or batch=grows", item));
    }
  }
  if (setting.workers == 0)
    throw ConfigError("a simulated job needs its number of workers; add workers=N");
  return setting;
}

void describe(Schema& s, DoctorOptions& o) {
  s.option("json", o.json, "print the findings as JSON");
  s.custom(seconds_option("seconds", o.seconds, "approximate duration of the measurement"));
  s.option("price-per-hour", o.price_per_hour,
           "price of one host per hour, for the predicted cost of the run", 0, 1e6);
  s.option("offers", o.offers, "FILE",
           "YAML file of machines that are not rented yet (price, GPU, link of each), ranked for "
           "this job by cost and time from reference speeds; nothing is measured; "
           "recipes/offers.yaml is an example");
  s.custom(simulate_option(o));
  describe_settings(s, o.train);
  s.example("reigen doctor --config run.yaml --hosts vm1:2,vm2:2 --price-per-hour 3.06");
  s.example("reigen doctor --data data --preset base --offers offers.yaml");
  s.example(
      "reigen doctor --data data --preset base --workers 2 --simulate workers=64,link=10gbit");
}

}  // namespace reigen
