// The rollup of a whole run in a few megabytes: the records of all ranks, aggregated into tables
// and lists.
//
// Report, top and live page read this and not the logs. It can be saved between two records and
// extended later, so that opening a run of 300,000 steps does not mean reading all of them
// (run_reader.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/record/records.h"
#include "observe/record/rollup_table.h"

namespace reigen {

// Step times of one rank, and the samples of its host.
struct RankSummary {
  RankSummary();
  RollupTable spans;    // columns of SpansRecord
  RollupTable machine;  // columns of SampleRecord; empty for all but the lowest rank of a host
  RollupTable process;  // columns of ProcessRecord
  std::optional<SampleRecord> last_sample;
  std::optional<ProcessRecord> last_process;
  double last_time = 0;
};

// Begin and last record of an attempt.
struct AttemptTime {
  double first = 0;  // time stamps
  double last = 0;
  double seconds = 0;  // wall time by its end record; 0 without one
};

struct RunSummary {
  RunSummary();

  void add(int rank, const Record& record);

  RollupTable steps;                 // columns of StepRecord, of rank 0
  std::map<int, RankSummary> ranks;  // of all ranks
  std::vector<StartRecord> starts;
  std::vector<AttemptTime> attempts;
  std::vector<EvaluationRecord> evaluations;  // sample translations only in the last one
  std::vector<CheckpointRecord> checkpoints;
  std::vector<CopyRecord> copies;  // the last that succeeded, and those that failed after it
  std::vector<SharesRecord> shares;
  std::vector<EndRecord> ends;
  bool ended = false;  // the last attempt has an end record; a killed one has none
  std::vector<PredictionRecord> predictions;
  std::vector<DecayRecord> decays;
  std::optional<StartingPointRecord> starting_point;
  std::vector<MembershipChangeRecord> memberships;  // after the first one of each attempt
  // Times of steps evenly spaced over the run, for a median.
  std::vector<double> step_seconds;
  uint64_t step_stride = 1;  // distance between two of them, in steps
  std::optional<StepRecord> first_step;
  std::optional<StepRecord> last_step;
  // Steps whose time stamps contradict their duration by more than a minute: the clock was set.
  uint64_t clock_jumps = 0;
  // Steps that are in the log twice: two processes wrote it at once. The first of each counts.
  uint64_t repeated_steps = 0;

  Json to_json() const;
  static RunSummary from_json(const Json& json);  // throws DataError

 private:
  void note_time(const Record& record);
  void add_step(const StepRecord& record);
  void note_seconds(const StepRecord& record);
  void add_spans(int rank, const SpansRecord& record);
  void add_sample(int rank, const SampleRecord& record);
  void add_process(int rank, const ProcessRecord& record);

  uint64_t newest_ = 0;  // last step of this attempt
};

}  // namespace reigen
