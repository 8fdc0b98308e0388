// The outputs of a run: progress line in the terminal, log.txt, measurement logs, TensorBoard.
//
// All of them are made from the same records (observe/record), so no number is measured twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file/append_file.h"
#include "config/train_options.h"
#include "observe/record/measurement_log.h"
#include "observe/record/records.h"
#include "observe/record/run_reader.h"
#include "observe/tensorboard/tensorboard.h"
#include "optim/state.h"

namespace reigen {

class Reporter {
 public:
  // `after_step` is the step that the attempt resumes from, 0 for a new run; `earlier_seconds` is
  // the wall time of the attempts before.
  Reporter(const TrainOptions& options, uint64_t after_step, double earlier_seconds);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  const LogCut& cut() const { return log_.cut(); }

  void start(StartRecord record);
  void prediction(const PredictionRecord& record) { log_.append(record); }
  void decay(const DecayRecord& record);
  void starting_point(const StartingPointRecord& record);
  void membership(const MembershipChangeRecord& record);
  // A decay that ends at `last_step` replaces the limits of the run.
  void use_decay(uint64_t last_step) {
    last_step_ = last_step;
    decays_ = true;
  }
  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  void checkpoint(const CheckpointRecord& record);
  void copy(const CopyRecord& record);
  void shares(const SharesRecord& record);
  void end(const EndRecord& record);
  // Records of every worker, by its number: host samples, and spans of the ranks other than 0.
  void add_records(const std::vector<std::vector<Record>>& records);

  // The run directory is no longer at its path: the rollup is not written any more.
  void stop_rollup() { rolls_up_ = false; }

  // Writes logs and rollup to disk. Before a checkpoint: the steps up to it are not repeated.
  void flush();

 private:
  std::string progress_line(const StepRecord& record, double loss, double tokens_per_second) const;
  double seconds_left(const StepRecord& record) const;
  void plain_line(const StepRecord& record);
  void warn_of_change();
  MeasurementLog& log_of(int rank);

  const TrainOptions& options_;
  TextLog text_;  // log.txt; a full disk loses lines here, not in the measurement log
  MeasurementLog log_;
  std::map<int, std::unique_ptr<MeasurementLog>> others_;  // by rank
  TensorBoard board_;
  RunReader rollup_;
  bool rolls_up_ = true;
  bool checkpoint_failed_ = false;  // the last one
  Stopwatch since_look_;            // for a change in the time of a step
  bool warned_ = false;             // of one
  uint64_t after_step_;
  uint64_t last_step_;  // 0: not known
  bool decays_ = false;
  double earlier_seconds_;
  // Sums since the last progress line of the log.
  double loss_sum_ = 0;
  uint64_t finite_steps_ = 0;
  uint64_t tokens_ = 0;
  double seconds_ = 0;
  // For the time left, measured since the end of the first step, which is slower than the rest.
  uint64_t attempt_steps_ = 0;  // the first included
  Stopwatch since_first_;
  double first_epoch_ = 0;
  Stopwatch status_;
};

}  // namespace reigen
