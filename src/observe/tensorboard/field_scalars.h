// TensorBoard scalars of a record, by its field table (record/field.h).
#pragma once

#include <string>
#include <vector>

#include "observe/record/field_writer.h"
#include "observe/tensorboard/event_file.h"

namespace reigen {

// Appends a scalar for each field with a tag, rounded as in the log so that both show the same
// number. Fields that the log leaves out are left out here too. `prefix` begins every tag.
template <HasFields T>
void append_scalars(const T& object, const std::string& prefix, std::vector<EventScalar>& scalars) {
  for_each_row(T::fields(), [&](const auto& f) {
    const auto& value = object.*f.member;
    using M = std::remove_cvref_t<decltype(value)>;
    if (f.tag == nullptr || (f.may_be_absent() && is_empty(value))) return;
    if constexpr (std::is_same_v<M, Spans>) {
      for (const auto& [name, seconds] : value) {
        scalars.push_back({prefix + f.tag + name, rounded(seconds, f.unit)});
      }
    } else if constexpr (kIsNumber<M>) {
      scalars.push_back(
          {prefix + f.tag, rounded(static_cast<double>(value), f.unit) / f.tag_divisor});
    } else if constexpr (std::is_same_v<M, std::optional<double>>) {
      scalars.push_back({prefix + f.tag, *value / f.tag_divisor});
    }
  });
  if constexpr (HasDerived<T>) {
    for_each_row(T::derived(), [&](const auto& d) {
      if (d.shown != nullptr && d.shown(object)) {
        scalars.push_back({prefix + d.name, d.value(object)});
      }
    });
  }
}

template <HasFields T>
std::vector<EventScalar> scalars_of(const T& record) {
  std::vector<EventScalar> scalars;
  append_scalars(record, "", scalars);
  return scalars;
}

}  // namespace reigen
