// Sums over steps and rollup columns, by field tables (field.h).
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "observe/record/field.h"
#include "observe/record/step_record.h"

namespace reigen {

// A column of a rollup table.
struct RollupColumn {
  std::string_view name;
  Combine combine;
  bool operator==(const RollupColumn&) const = default;
};

template <class M>
void combine_value(M& into, const M& value, Combine how) {
  if (how == Combine::kNone) return;
  if (how == Combine::kMax) {
    into = std::max(into, value);
  } else if (how == Combine::kLast) {
    into = value;
  } else {
    into += value;
  }
}

inline void combine_value(Spans& into, const Spans& value, Combine how) {
  for (const auto& more : value) {
    const auto found = std::find_if(into.begin(), into.end(),
                                    [&](const auto& span) { return span.first == more.first; });
    if (found == into.end()) {
      into.push_back(more);
    } else {
      combine_value(found->second, more.second, how);
    }
  }
}

template <HasFields T>
void combine_value(T& into, const T& value, Combine) {
  for_each_row(T::fields(),
               [&](const auto& f) { combine_value(into.*f.member, value.*f.member, f.combine); });
}

template <class M>
void combine_value(M& into, const std::optional<M>& value, Combine how) {
  if (value) combine_value(into, *value, how);
}

// Adds the fields of one step to the same fields of a sum. Both tables have the same rows.
template <class Sum, class Step, class... SumRows, class... StepRows>
void add_fields(Sum& sum, const Step& step, const std::tuple<SumRows...>& sum_rows,
                const std::tuple<StepRows...>& step_rows) {
  static_assert(sizeof...(SumRows) == sizeof...(StepRows));
  [&]<size_t... i>(std::index_sequence<i...>) {
    (combine_value(sum.*std::get<i>(sum_rows).member, step.*std::get<i>(step_rows).member,
                   std::get<i>(sum_rows).combine),
     ...);
  }
  (std::index_sequence_for<SumRows...>());
}

// Time that no span covers, and spans with unknown names, are the column "other".
template <class Visit>
void visit_span_columns(const Spans& spans, double whole, Visit&& visit) {
  std::array<double, kStepSpans.size()> known = {};
  double covered = 0;
  double other = 0;
  for (const auto& given : spans) {
    const auto found = std::find_if(kStepSpans.begin(), kStepSpans.end(),
                                    [&](const StepSpan& span) { return span.name == given.first; });
    (found == kStepSpans.end() ? other : known[found - kStepSpans.begin()]) += given.second;
    covered += given.second;
  }
  for (size_t i = 0; i < known.size(); ++i)
    visit(RollupColumn{kStepSpans[i].name, Combine::kSum}, known[i]);
  visit(RollupColumn{"other", Combine::kSum}, other + std::max(0.0, whole - covered));
}

// A function of its own: clang 14 looks for the member also in records without spans.
template <class R>
double seconds_of(const R& record) {
  if constexpr (requires { record.seconds; }) return record.seconds;
  return 0;
}

// Calls visit(column, value) for every rollup column of a record, always in the same order.
template <HasFields R, class Visit>
void visit_columns(const R& record, Visit&& visit) {
  for_each_row(R::fields(), [&](const auto& f) {
    if (f.combine == Combine::kNone) return;
    const auto& value = record.*f.member;
    using M = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<M, Spans>) {
      visit_span_columns(value, seconds_of(record), visit);
    } else if constexpr (HasFields<M>) {
      visit_columns(value, visit);
    } else if constexpr (kIsNumber<M>) {
      bool counts = true;
      if constexpr (requires { record.updated(); }) {
        counts = f.combine != Combine::kSumOfUpdates || record.updated();
      }
      visit(RollupColumn{f.key, f.combine}, counts ? static_cast<double>(value) : 0.0);
    }
  });
  if constexpr (HasDerived<R>) {
    for_each_row(R::derived(), [&](const auto& d) {
      if (d.combine != Combine::kNone) visit(RollupColumn{d.name, d.combine}, d.value(record));
    });
  }
}

template <HasFields R>
const std::vector<RollupColumn>& columns_of() {
  static const std::vector<RollupColumn> columns = [] {
    std::vector<RollupColumn> all;
    visit_columns(R{}, [&](const RollupColumn& column, double) { all.push_back(column); });
    return all;
  }();
  return columns;
}

// The values of columns_of<R>() for one record.
template <HasFields R>
std::vector<double> row_of(const R& record) {
  std::vector<double> row;
  row.reserve(columns_of<R>().size());
  visit_columns(record, [&](const RollupColumn&, double value) { row.push_back(value); });
  return row;
}

}  // namespace reigen
