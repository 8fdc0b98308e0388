// Records to JSON, by their field tables (field.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/json/json.h"
#include "observe/record/field.h"

namespace reigen {

// JSON has no NaN and no infinity: both are written as null.
inline Json finite_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

inline double rounded(double value, const Unit& unit) {
  return unit.fractions > 0 ? std::round(value * unit.fractions) / unit.fractions : value;
}

template <HasFields T>
void write_fields(const T& object, Json& json);

template <class M>
Json value_json(const M& value, const Unit& unit) {
  if constexpr (std::is_same_v<M, double>) {
    constexpr double kMost = 0x1p63;  // a number beyond it, in a log from outside, stays a double
    if (unit.whole && !(value >= kMost))
      return static_cast<uint64_t>(std::max(0.0, std::round(value)));
    return finite_json(rounded(value, unit));
  } else if constexpr (std::is_same_v<M, Spans>) {
    Json json = Json::object();
    for (const auto& [name, seconds] : value) json[name] = value_json(seconds, unit);
    return json;
  } else if constexpr (kIsOptional<M>) {
    return value_json(*value, unit);
  } else if constexpr (kIsList<M>) {
    Json json = Json::array();
    for (const auto& element : value) json.push_back(value_json(element, unit));
    return json;
  } else if constexpr (HasFields<M>) {
    Json json = Json::object();
    write_fields(value, json);
    return json;
  } else {
    return value;
  }
}

template <class M>
bool is_empty(const M& value) {
  if constexpr (kIsOptional<M>) {
    return !value;
  } else if constexpr (kIsNumber<M>) {
    return !(value > 0);
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return false;
  }
}

template <HasFields T>
void write_fields(const T& object, Json& json) {
  for_each_row(T::fields(), [&](const auto& f) {
    const auto& value = object.*f.member;
    if (f.may_be_absent() && is_empty(value)) return;
    json[f.key] = value_json(value, f.unit);
  });
}

}  // namespace reigen
