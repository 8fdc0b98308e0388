#include "observe/record/log_reference.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "observe/record/field_columns.h"
#include "observe/record/records.h"

namespace reigen {
namespace {

constexpr std::string_view kIntroduction =
    "# Measurement log\n\n"
    "Generated from the field tables in `src/observe/record/` by `make docs`; do not edit.\n\n"
    "`RUN/measurements/rank-N.jsonl` is the log of rank N: one JSON object per line, over all\n"
    "attempts of the run. `kind` names the record; `step` and `time` follow. A step is in the log\n"
    "once: an attempt that resumes from a checkpoint first removes the records after it.\n\n"
    "- Fields marked *optional* are omitted when they are zero, false or empty.\n"
    "- A number that is not finite is `null`. Times are rounded to the microsecond.\n"
    "- `since` is the first version of Reigen that writes the field. Logs of version 0.1 have "
    "some\n"
    "  fields under an older key; Reigen reads both, also in one file.\n\n"
    "The losses of a run, and its mean step time:\n\n"
    "    jq -r 'select(.kind == \"step\") | [.step, .loss] | @tsv' RUN/measurements/rank-0.jsonl\n"
    "    jq -s 'map(select(.kind == \"step\").seconds) | add / length' "
    "RUN/measurements/rank-0.jsonl\n";

constexpr std::string_view kTableHead =
    "\n| field | unit | since | TensorBoard | meaning |\n| --- | --- | --- | --- | --- |\n";

template <class M>
struct Inner {
  using Type = M;
};
template <class M>
struct Inner<std::optional<M>> {
  using Type = M;
};
template <class M>
struct Inner<std::vector<M>> {
  using Type = M;
};

template <class F>
std::string row_text(const F& f, std::string_view tag, std::string_view kind_since) {
  std::string since(std::max(kind_since, std::string_view(f.first_version)));
  if (f.old_key != nullptr) since = format("0.2 (0.1: `{}`)", f.old_key);
  return format("| `{}` | {} | {} | {} | {}{} |\n", f.key, f.unit.name, since, tag, f.help,
                f.may_be_absent() ? " (*optional*)" : "");
}

class Reference {
 public:
  template <class R>
  void add_record() {
    text_ += format("\n## `{}`\n\n{}\n", R::kKind.name, R::kKind.help);
    add_table<R>(R::kKind.since);
    if constexpr (HasDerived<R>) {
      std::string scalars;
      for_each_row(R::derived(), [&](const auto& d) {
        if (d.shown != nullptr) scalars += format("{}`{}`", scalars.empty() ? "" : ", ", d.name);
      });
      if (!scalars.empty()) text_ += format("\nTensorBoard also shows {}.\n", scalars);
    }
    for_each_row(R::fields(), [&](const auto& f) { add_object(f, R::kKind.since); });
  }

  std::string text() && { return std::move(text_); }

 private:
  template <class T>
  void add_table(std::string_view kind_since) {
    text_ += kTableHead;
    for_each_row(T::fields(), [&]<class R, class M>(const RecordField<R, M>& f) {
      constexpr bool kShown = !std::is_same_v<T, SpansRecord>;  // TensorBoard shows rank 0's steps
      std::string tag = kShown && f.tag != nullptr ? f.tag : "";
      if (!tag.empty()) tag = format("`{}{}`", tag, std::is_same_v<M, Spans> ? "NAME" : "");
      text_ += row_text(f, tag, kind_since);
    });
  }

  template <class R, class M>
  void add_object(const RecordField<R, M>& f, std::string_view kind_since) {
    using T = typename Inner<M>::Type;
    if constexpr (HasFields<T>) {
      if (!described_.insert(f.key).second) return;
      text_ += format("\n### `{}`\n", f.key);
      add_table<T>(kind_since);
    } else if constexpr (std::is_same_v<M, Spans>) {
      if (f.combine == Combine::kNone && f.tag == nullptr) return;  // not of a step
      if (!described_.insert(f.key).second) return;
      text_ += "\n### `spans`\n\n| span | meaning |\n| --- | --- |\n";
      for (const StepSpan& span : kStepSpans) {
        text_ += format("| `{}` | {} |\n", span.name, span.help);
      }
    }
  }

  std::string text_ = std::string(kIntroduction);
  std::set<std::string_view> described_;  // objects that are in several records
};

}  // namespace

std::string log_reference() {
  Reference reference;
  [&]<size_t... i>(std::index_sequence<i...>) {
    (reference.add_record<std::variant_alternative_t<i, Record>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Record>>());
  return std::move(reference).text();
}

}  // namespace reigen
