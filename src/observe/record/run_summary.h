// A whole run in a few megabytes: every record of every rank, folded into tables and lists.
//
// Everything that shows a run (report, top, live page) looks at this and not at the logs. It can be
// written down between records and gone on from, so that opening a run of 300,000 steps does not
// mean reading them (observe/run_reader.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/record/records.h"
#include "observe/record/rollup_table.h"

namespace reigen {

// Where the time of a rank's steps went.
struct RankFold {
  RankFold();
  RollupTable spans;    // over steps
  RollupTable machine;  // over steps; empty for all but the first rank of a machine
  std::optional<SampleRecord> last_sample;
  double last_time = 0;
};

// From when an attempt began to its last record.
struct AttemptTime {
  double first = 0;  // time stamps
  double last = 0;
  double seconds = 0;  // as it said itself when it ended; 0 when it did not
};

struct RunSummary {
  RunSummary();

  void add(int rank, const Record& record);

  RollupTable steps;              // the first rank's: losses, rate, tokens
  std::map<int, RankFold> ranks;  // spans and machines of all
  std::vector<StartRecord> starts;
  std::vector<AttemptTime> attempts;
  std::vector<EvaluationRecord> evaluations;  // samples only in the last one
  std::vector<CheckpointRecord> checkpoints;
  std::vector<EndRecord> ends;
  bool ended = false;  // the last attempt said so; one that was killed has no end record
  std::vector<ForecastRecord> forecasts;
  // Seconds of steps evenly spaced over the run: enough for a median.
  std::vector<double> step_seconds;
  uint64_t step_stride = 1;  // every so many steps one is in there
  std::optional<StepRecord> first_step;
  std::optional<StepRecord> last_step;
  // Time stamps that do not fit the time that passed, by more than a minute: the clock was set.
  uint64_t clock_jumps = 0;
  // Steps that were in the log already: two processes wrote it at once. The first of each counts.
  uint64_t repeated_steps = 0;

  Json to_json() const;
  static RunSummary from_json(const Json& json);  // throws DataError

 private:
  void note_time(const Record& record);
  void add_step(const StepRecord& record);
  void note_seconds(const StepRecord& record);
  void add_spans(int rank, const SpansRecord& record);
  void add_sample(int rank, const SampleRecord& record);

  uint64_t newest_ = 0;  // step, of this attempt
};

}  // namespace reigen
