// The records of the measurement log, one JSON object per line.
//
// Each record is a struct with the table of its fields; JSON, sums over steps, rollup columns,
// TensorBoard and docs/measurement-log.md follow from the table (field.h).
//
// A record reads back as it was written, with two exceptions: times are rounded to the microsecond,
// and a number that is not finite reads back as NaN.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/json/json.h"
#include "observe/record/process_record.h"
#include "observe/record/run_records.h"
#include "observe/record/sample_record.h"
#include "observe/record/step_record.h"

namespace reigen {

using Record =
    std::variant<StartRecord, StepRecord, EvaluationRecord, CheckpointRecord, EndRecord,
                 SpansRecord, SampleRecord, PredictionRecord, DecayRecord, StartingPointRecord,
                 CopyRecord, SharesRecord, MembershipChangeRecord, ProcessRecord>;

uint64_t step_of(const Record& record);

// An object with "kind", "step" and "time" first.
Json to_json(const Record& record);

// Throws DataError that names the field which is missing or of the wrong type.
Record record_from_json(const Json& json);

// A line of the log, with its newline.
std::string log_line(const Record& record);

// The bytes that a line of records of type R begins with.
template <class R>
std::string line_start() {
  return std::string("{\"kind\":\"") + R::kKind.name + '"';
}

}  // namespace reigen
