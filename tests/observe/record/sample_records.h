// Records with a value in every field, and a reader of whole logs, for tests.
#pragma once

#include <string>
#include <vector>

#include "observe/record/records.h"

namespace reigen {

StartRecord sample_start(uint64_t step, uint64_t attempt);
StepRecord sample_step(uint64_t step);
EvaluationRecord sample_evaluation(uint64_t step);
CheckpointRecord sample_checkpoint(uint64_t step);
EndRecord sample_end(uint64_t step);
SpansRecord sample_spans(uint64_t step);
SampleRecord sample_machine(uint64_t step);
ProcessRecord sample_process(uint64_t step);
PredictionRecord sample_prediction(uint64_t step);
DecayRecord sample_decay(uint64_t step);
StartingPointRecord sample_starting_point();
CopyRecord sample_copy(uint64_t step);
SharesRecord sample_shares(uint64_t step);
MembershipChangeRecord sample_membership(uint64_t step);

// All records of a log in their order. Throws DataError that names file and line.
std::vector<Record> read_records(const std::string& path);

}  // namespace reigen
