// A JSON value from outside, read by assignment: `facts.step = view.at("step")`.
//
// A value that is missing, of a different type or out of the target's range throws FieldError,
// which names the path of the field ("train[0].shards[2].bytes"). nlohmann-json's own conversions
// name no field, turn -1 into 2^64-1 and cast 1e300 to an integer, which is undefined.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace reigen {

struct FieldError : DataError {
  using DataError::DataError;
};

template <class T>
concept JsonScalar = std::same_as<T, std::string> || std::same_as<T, bool> ||
    std::floating_point<T> ||(std::integral<T> && sizeof(T) >= 4);

class JsonView {
 public:
  // `json` must outlive the view.
  explicit JsonView(const Json& json, std::string path = "")
      : json_(&json), path_(std::move(path)) {}

  JsonView at(std::string_view key) const;
  JsonView at(size_t index) const;
  std::vector<JsonView> elements() const;  // of a list
  std::vector<JsonView> members() const;   // of an object

  bool contains(const char* key) const { return json_->is_object() && json_->contains(key); }
  bool is_null() const { return json_->is_null(); }
  const Json& json() const { return *json_; }
  const Json& object() const;  // throws unless it is one
  const std::string& path() const { return path_; }

  template <JsonScalar T>
  operator T() const {  // by assignment, see above
    if constexpr (std::same_as<T, std::string>) {
      return text();
    } else if constexpr (std::same_as<T, bool>) {
      return flag();
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(number());
    } else if constexpr (std::is_signed_v<T>) {
      const int64_t value = whole_number();
      if (!std::in_range<T>(value)) refuse("a smaller whole number");
      return static_cast<T>(value);
    } else {
      const uint64_t value = count();
      if (!std::in_range<T>(value)) refuse("a smaller whole number");
      return static_cast<T>(value);
    }
  }

  // "FIELD: must be WANTED, but is VALUE".
  [[noreturn]] void refuse(const std::string& wanted) const;

 private:
  std::string text() const;
  bool flag() const;
  double number() const;
  int64_t whole_number() const;
  uint64_t count() const;

  const Json* json_;
  std::string path_;
};

}  // namespace reigen
