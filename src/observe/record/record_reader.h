// A record of any kind from a JSON value of either library.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "observe/record/field_reader.h"
#include "observe/record/records.h"

namespace reigen {

template <class Value>
Record read_record(const Value& value) {
  if (!value.is_object()) throw DataError("is not a JSON object");
  std::string kind;
  const std::optional<Value> found = value.find("kind");
  if (!found) throw DataError("\"kind\" is missing");
  read_value(*found, "kind", kind);
  std::optional<Record> record;
  [&]<size_t... i>(std::index_sequence<i...>) {
    auto try_kind = [&]<class R>(std::in_place_type_t<R>) {
      if (kind != R::kKind.name) return false;
      record.emplace(read_fields<R>(value));
      return true;
    };
    (try_kind(std::in_place_type<std::variant_alternative_t<i, Record>>) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Record>>());
  if (!record) throw DataError(format("kind \"{}\" is unknown to this version", kind));
  return std::move(*record);
}

}  // namespace reigen
