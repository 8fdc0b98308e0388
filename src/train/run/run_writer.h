// The run directory as rank 0 writes it: options, logs, checkpoints, report, and the lines on the
// terminal. The other ranks have none.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/train_options.h"
#include "decode/calibration.h"
#include "dist/launch/restarts.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "train/directory/checkpoint_writer.h"
#include "train/directory/run_directory.h"
#include "train/run/event_command.h"
#include "train/run/reporter.h"
#include "train/run/setup.h"

namespace reigen {

// Facts of an attempt that are known before its first step, for the logs.
struct AttemptFacts {
  std::string version;
  std::string device;
  std::string device_kind;
  std::optional<double> precision_gain;  // of bf16, where --precision auto chose it
  uint64_t threads = 1;
  uint64_t worker_count = 1;
  std::vector<MemberEntry> members;  // of an elastic job
  std::string workers;               // "2 workers over ...", or empty for a single worker
  std::string encryption;            // these two: see StartRecord
  bool insecure = false;
  std::string prediction_line;
  std::optional<PredictionRecord> prediction;  // predicted step time, of several workers
  double capacity = 0;                         // these four: see StartRecord
  double capacity_low = 0;
  double setup_seconds = 0;
  double data_seconds = 0;
  std::vector<std::string> warnings;
  uint64_t first_step = 0;
  bool resumed = false;
  bool decay_cancelled = false;  // by a new --max-steps
  RestartFacts restart;
  MemoryPlan memory;
};

class RunWriter {
 public:
  // All arguments must outlive it.
  RunWriter(RunDirectory& run, const TrainOptions& options, const TrainingData& data,
            const Transformer& model);

  // Writes config.yaml, opens the logs after `counters.step` and sets the attempt's number.
  void open(Counters& counters);
  void announce(const AttemptFacts& facts);
  // In place of open() and announce(), where the writer of the attempt was lost: continues its logs
  // after step `logged`, and sets the attempt's number.
  void take_over(Counters& counters, const AttemptFacts& facts, uint64_t logged);

  // Seconds since the last call in which a checkpoint was written in the background.
  double take_writing_seconds() { return checkpoints_->take_writing_seconds(); }
  void step(const StepRecord& record);
  void shares(const SharesRecord& record) { reporter_->shares(record); }
  void evaluation(const EvaluationRecord& record);
  // Of the evaluation that comes next, for the checkpoint of its step.
  void calibrate(std::optional<Calibration> calibration) { calibration_ = std::move(calibration); }
  void starting_point(const StartingPointRecord& record) { reporter_->starting_point(record); }
  void add_records(const std::vector<std::vector<Record>>& records) {  // of every rank, by rank
    reporter_->add_records(records);
  }
  // The length of the decay that `train --decay-now` asks for; 0: none. Looked up once a second.
  uint64_t requested_decay();
  // A decay continues from an earlier attempt, begins, or is cancelled.
  void use_decay(const Decay& decay);
  void begin_decay(const DecayRecord& record);
  void cancel_decay(uint64_t step) { reporter_->decay({.step = step, .cause = "max-steps"}); }
  void membership(const MembershipChangeRecord& record);
  // For the command of --on-event, if there is one.
  void raise(RunEvent event, uint64_t step, const std::string& message);
  void flush() { reporter_->flush(); }
  // Returns when the state is copied. `source` has parameters and moments where the state does not;
  // `stall` runs since training stopped for the checkpoint.
  void save(const TrainState& state, StateSource* source, const Stopwatch& stall);
  // A small file of the run; written when its text differs from the last one.
  void write_file(const std::string& name, std::string text);

  // Whether the run directory was moved, replaced or removed; looked up once a second.
  bool moved();

  void end(uint64_t step, const char* reason, double seconds);
  // Waits for the checkpoint under way, and for room if the disk is full.
  void wait_for_checkpoint();
  // Does so, and waits for the copy of the last checkpoint; throws IoError when the checkpoint
  // could not be written. `notice`: of preemption.
  void finish(uint64_t step, const char* reason, double seconds, const std::string& notice = "");
  // Waits for a checkpoint under way. If the disk was full for it: waits up to --checkpoint.wait
  // until it is written. The first signal after this call ends the wait.
  void wait_for_room();
  void summarise(const Counters& counters, double epochs, double seconds, double peak_memory);

  const RunDirectory& run() const { return run_; }
  // "the last good checkpoint is RUN/last", or that there is none.
  std::string last_checkpoint() const;
  // "`reigen train --run RUN` resumes from step 1,000", or that there is no checkpoint.
  std::string how_to_resume() const;

 private:
  CheckpointFacts facts(const TrainState& state) const;
  void write_reports();
  void open_checkpoints();
  void log(const std::optional<CheckpointRecord>& record);
  void log_copy();
  void wait_for_copy();
  void look_for_move();
  void note_progress(uint64_t step);
  void refuse_decay_request();

  RunDirectory& run_;
  const TrainOptions& options_;
  const TrainingData& data_;
  const Transformer& model_;
  AttemptFacts attempt_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<CheckpointCopier> copier_;  // null without --checkpoint.copy-to
  std::unique_ptr<CheckpointWriter> checkpoints_;
  std::string last_error_;                  // of the last checkpoint; empty if it is written
  bool waited_ = false;                     // for room on the disk
  Stopwatch since_look_;                    // at the place of the run directory
  std::optional<Stopwatch> since_request_;  // since the last look for a request
  uint64_t requested_decay_ = 0;
  Decay decay_;
  bool request_recorded_ = true;  // false from the begin of a requested decay to its checkpoint
  bool moved_ = false;
  std::optional<EvaluationRecord> last_evaluation_;
  std::optional<Calibration> calibration_;                     // of its translations
  std::vector<std::pair<std::string, std::string>> verdicts_;  // of the report, for the summary
  std::map<std::string, std::string> files_;                   // text by name, as last written
  std::unique_ptr<EventCommand> events_;                       // null without --on-event
};

}  // namespace reigen
