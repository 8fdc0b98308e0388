// How a record declares its fields: one row per field in the table `fields()` of its struct
// (step_record.h, run_records.h, sample_record.h).
//
// The help text of a row also documents the member. The row drives everything that handles the
// field: the JSON writer (field_writer.h), the reader of both JSON libraries (field_reader.h), sums
// over steps and rollup columns (field_columns.h), TensorBoard (tensorboard/field_scalars.h) and
// docs/measurement-log.md (log_reference.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace reigen {

// Parts of a step or of an evaluation and their seconds, in the order of execution.
using Spans = std::vector<std::pair<std::string, double>>;

// The kind of a record on disk, and its line in the reference.
struct RecordKind {
  const char* name;
  const char* help;
  const char* since = "0.1";  // the first version that writes such records
};

// Unit of a number, and the precision in which it is written.
struct Unit {
  const char* name;
  double fractions = 0;  // written as a multiple of 1/fractions; 0: in full
  bool whole = false;    // a double that is written as a whole number
};
inline constexpr Unit kNoUnit{""};
inline constexpr Unit kCount{"count"};
inline constexpr Unit kTokens{"tokens"};
inline constexpr Unit kEpochs{"epochs"};
inline constexpr Unit kNats{"nats/token"};
inline constexpr Unit kSeconds{"s", 1e6};  // clocks resolve no more than a microsecond
inline constexpr Unit kUnixTime{"s since 1970", 1e6};
inline constexpr Unit kBytes{"bytes"};
inline constexpr Unit kBytesPerSecond{"bytes/s"};
inline constexpr Unit kFlops{"FLOP"};
inline constexpr Unit kFlopsPerSecond{"FLOP/s"};
// A sample is written every second; short numbers are precise enough.
inline constexpr Unit kSampledSeconds{"s", 1024};
inline constexpr Unit kSampledBytesPerSecond{"bytes/s", 1, true};
inline constexpr Unit kSampledPercent{"%", 1, true};
inline constexpr Unit kSampledWatts{"W", 1, true};
inline constexpr Unit kSampledMegahertz{"MHz", 1, true};

// How the values of several steps become one: in a span record and in a row of the rollup. A mean
// is a sum that the reader divides by the column "steps" (or "seconds" of samples).
enum class Combine {
  kNone,  // not combined, no column
  kSum,
  kSumOfUpdates,  // sum over steps that updated the weights (record.updated())
  kMax,
  kLast,
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = !std::is_same_v<std::vector<T>, Spans>;

template <class T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T>;

template <class R, class M>
struct RecordField {
  M R::*member;
  const char* key;
  Unit unit;
  const char* help;
  const char* old_key = nullptr;
  const char* first_version = "0.1";
  bool omitted = false;
  Combine combine = Combine::kNone;
  const char* tag = nullptr;
  double tag_divisor = 1;

  constexpr bool may_be_absent() const { return omitted || kIsOptional<M>; }

  // The key in version 0.1; still read.
  constexpr RecordField was(const char* key_before) const {
    RecordField f = *this;
    f.old_key = key_before;
    return f;
  }
  // Records of earlier versions lack the field; it then has its default value.
  constexpr RecordField since(const char* version) const {
    RecordField f = *this;
    f.first_version = version;
    return f;
  }
  // Not written when zero, false or empty, and then read as the default value. A std::optional is
  // always omitted when empty.
  constexpr RecordField omitted_when_empty() const {
    RecordField f = *this;
    f.omitted = true;
    return f;
  }
  constexpr RecordField over_steps(Combine how) const {
    RecordField f = *this;
    f.combine = how;
    return f;
  }
  // Shown in TensorBoard under `name`, divided by `divisor`. Of spans: the prefix of their tags.
  constexpr RecordField scalar(const char* name, double divisor = 1) const {
    RecordField f = *this;
    f.tag = name;
    f.tag_divisor = divisor;
    return f;
  }
};

template <class R, class M>
constexpr RecordField<R, M> field(M R::*member, const char* key, Unit unit, const char* help) {
  return {member, key, unit, help};
}

// A number computed from a record that is not on disk: a rollup column or a TensorBoard scalar.
template <class R>
struct Derived {
  const char* name;  // of the column, or the tag
  double (*value)(const R&);
  Combine combine = Combine::kNone;   // kNone: a scalar
  bool (*shown)(const R&) = nullptr;  // of a scalar: whether the record has a value
};

// A struct with a field table: a record, or an object inside of one.
template <class T>
concept HasFields = requires {
  T::fields();
};

template <class T>
concept HasDerived = requires {
  T::derived();
};

// Calls visit(row) for each row of a table.
template <class Table, class Visit>
constexpr void for_each_row(const Table& rows, Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, rows);
}

}  // namespace reigen
