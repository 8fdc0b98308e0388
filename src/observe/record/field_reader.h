// JSON to records, by their field tables (field.h): one reader for both JSON libraries.
//
// A `Value` is a JSON value of either library (JsonValue here, SimdjsonValue in simdjson_value.h).
// Its conversions return nothing when the value has a different type.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"
#include "observe/record/field.h"

namespace reigen {

class JsonValue {
 public:
  explicit JsonValue(const Json& json) : json_(&json) {}

  bool is_object() const { return json_->is_object(); }
  std::optional<JsonValue> find(const char* key) const {
    const auto found = json_->find(key);
    if (found == json_->end()) return std::nullopt;
    return JsonValue(*found);
  }
  std::optional<double> number() const {
    if (!json_->is_number()) return std::nullopt;
    return json_->get<double>();
  }
  bool is_null() const { return json_->is_null(); }
  std::optional<uint64_t> count() const {
    if (!json_->is_number_unsigned()) return std::nullopt;
    return json_->get<uint64_t>();
  }
  std::optional<bool> flag() const {
    if (!json_->is_boolean()) return std::nullopt;
    return json_->get<bool>();
  }
  std::optional<std::string> text() const {
    if (!json_->is_string()) return std::nullopt;
    return json_->get<std::string>();
  }
  // False when the value is not a list, or not an object.
  template <class Visit>
  bool each_element(Visit&& visit) const {
    if (!json_->is_array()) return false;
    for (const Json& element : *json_) visit(JsonValue(element));
    return true;
  }
  template <class Visit>
  bool each_member(Visit&& visit) const {
    if (!json_->is_object()) return false;
    for (const auto& [key, value] : json_->items()) visit(key, JsonValue(value));
    return true;
  }

 private:
  const Json* json_;
};

inline DataError wrong_type(const char* key, const char* wanted) {
  return DataError(format("\"{}\" is not {}", key, wanted));
}

// A number that was not finite is null in the log.
template <class Value>
double number_in(const Value& value, const char* key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  const std::optional<double> number = value.number();
  if (!number) throw wrong_type(key, "a number");
  return *number;
}

template <HasFields T, class Value>
T read_fields(const Value& value);

template <class M, class Value>
void read_value(const Value& value, const char* key, M& into) {
  auto converted = [&](auto found, const char* wanted) {
    if (!found) throw wrong_type(key, wanted);
    return std::move(*found);
  };
  if constexpr (std::is_same_v<M, double>) {
    into = number_in(value, key);
  } else if constexpr (std::is_same_v<M, uint64_t>) {
    into = converted(value.count(), "a whole number");
  } else if constexpr (std::is_same_v<M, bool>) {
    into = converted(value.flag(), "true or false");
  } else if constexpr (std::is_same_v<M, std::string>) {
    into = converted(value.text(), "text");
  } else if constexpr (std::is_same_v<M, Spans>) {
    const bool is_object = value.each_member([&](const auto& name, const Value& seconds) {
      into.emplace_back(std::string(name), number_in(seconds, key));
    });
    if (!is_object) throw wrong_type(key, "an object");
  } else if constexpr (kIsOptional<M>) {
    read_value(value, key, into.emplace());
  } else if constexpr (std::is_same_v<M, std::vector<double>>) {
    const bool is_list = value.each_element([&](const Value& element) {
      into.push_back(converted(element.number(), "a list of numbers"));
    });
    if (!is_list) throw wrong_type(key, "a list");
  } else if constexpr (std::is_same_v<M, std::vector<uint64_t>>) {
    const bool is_list = value.each_element([&](const Value& element) {
      into.push_back(converted(element.count(), "a list of whole numbers"));
    });
    if (!is_list) throw wrong_type(key, "a list");
  } else if constexpr (kIsList<M>) {
    const bool is_list = value.each_element([&](const Value& element) {
      into.push_back(read_fields<typename M::value_type>(element));
    });
    if (!is_list) throw wrong_type(key, "a list");
  } else {
    into = read_fields<M>(value);
  }
}

// Throws DataError that names the field which is missing or of the wrong type.
template <HasFields T, class Value>
T read_fields(const Value& value) {
  if (!value.is_object()) throw DataError("is not a JSON object");
  T object;
  for_each_row(T::fields(), [&](const auto& f) {
    auto found = value.find(f.key);
    if (!found && f.old_key != nullptr) found = value.find(f.old_key);
    if (found) {
      read_value(*found, f.key, object.*f.member);
    } else if (!f.may_be_absent() && f.first_version == std::string_view("0.1")) {
      throw DataError(format("\"{}\" is missing", f.key));
    }
  });
  return object;
}

}  // namespace reigen
