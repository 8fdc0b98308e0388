// A JSON value of simdjson for the reader in field_reader.h. The only door to simdjson.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>

namespace reigen {

class SimdjsonValue {
 public:
  explicit SimdjsonValue(simdjson::dom::element element) : element_(element) {}

  bool is_object() const { return element_.is_object(); }
  std::optional<SimdjsonValue> find(const char* key) const {
    simdjson::dom::element found;
    if (element_.at_key(key).get(found) != simdjson::SUCCESS) return std::nullopt;
    return SimdjsonValue(found);
  }
  bool is_null() const { return element_.is_null(); }
  std::optional<double> number() const { return as<double>(element_.get_double()); }
  std::optional<uint64_t> count() const { return as<uint64_t>(element_.get_uint64()); }
  std::optional<bool> flag() const { return as<bool>(element_.get_bool()); }
  std::optional<std::string> text() const { return as<std::string>(element_.get_string()); }
  template <class Visit>
  bool each_element(Visit&& visit) const {
    simdjson::dom::array array;
    if (element_.get_array().get(array) != simdjson::SUCCESS) return false;
    for (const simdjson::dom::element element : array) visit(SimdjsonValue(element));
    return true;
  }
  template <class Visit>
  bool each_member(Visit&& visit) const {
    simdjson::dom::object object;
    if (element_.get_object().get(object) != simdjson::SUCCESS) return false;
    for (const auto member : object) visit(member.key, SimdjsonValue(member.value));
    return true;
  }

 private:
  template <class To, class Result>
  static std::optional<To> as(Result result) {
    if (result.error() != simdjson::SUCCESS) return std::nullopt;
    return To(result.value_unsafe());
  }

  simdjson::dom::element element_;
};

}  // namespace reigen
