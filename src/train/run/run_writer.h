// What one worker keeps for all: the run directory, its logs and checkpoints, and what a person is
// told. The others train without it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/train_options.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "train/run/checkpoint_writer.h"
#include "train/run/reporter.h"
#include "train/run/run_directory.h"
#include "train/run/setup.h"

namespace reigen {

// What is fixed for an attempt at a run, as its writer tells of it.
struct AttemptFacts {
  std::string version;
  std::string device;
  uint64_t threads = 1;
  uint64_t worker_count = 1;
  std::string workers;  // "2 workers, ..." or empty for one
  std::string forecast_line;
  std::optional<ForecastRecord> forecast;  // what their steps should take
  double capacity = 0;                     // see StartRecord
  double setup_seconds = 0;                // likewise
  double data_seconds = 0;                 // likewise
  std::vector<std::string> warnings;
  uint64_t first_step = 0;
  bool resumed = false;
  MemoryPlan memory;
};

class RunWriter {
 public:
  // All that is given must outlive it.
  RunWriter(RunDirectory& run, const TrainOptions& options, const TrainingData& data,
            const Transformer& model);

  // Writes config.yaml, opens the logs after `counters.step` and counts the attempt.
  void open(Counters& counters);
  void announce(const AttemptFacts& facts);

  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  void add_lines(const std::vector<std::string>& lines) { reporter_->add_lines(lines); }
  // `elsewhere` has parameters and moments when the state does not.
  // `held` runs since training stood still for it.
  void save(const TrainState& state, StateSource* elsewhere, const Stopwatch& held);
  // A small file of the run, written when it has changed.
  void keep(const std::string& name, std::string text);

  void end(uint64_t step, const char* reason, double seconds);
  // Waits for the last checkpoint; throws IoError when it could not be written.
  void finish(uint64_t step, const char* reason, double seconds);
  void summarise(const Counters& counters, double epochs, double seconds, double peak_memory);

  const RunDirectory& run() const { return run_; }
  std::optional<uint64_t> saved_step() const { return saved_step_; }
  // "the last good checkpoint is RUN/last", or that there is none.
  std::string last_checkpoint() const;
  // What to do after an error that is not the run's.
  std::string way_on() const;

 private:
  CheckpointFacts facts(const Counters& counters) const;
  void write_reports();
  void collect(const std::optional<CheckpointRecord>& record);

  RunDirectory& run_;
  const TrainOptions& options_;
  const TrainingData& data_;
  const Transformer& model_;
  AttemptFacts attempt_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::optional<EvaluationRecord> last_evaluation_;
  std::optional<uint64_t> saved_step_;
  std::vector<std::pair<std::string, std::string>> findings_;  // of the report, for the summary
  std::map<std::string, std::string> kept_;  // small files by name, as last written
};

}  // namespace reigen
