// What a run tells: a live line or plain lines, log.txt, the measurement log, TensorBoard.
//
// Everything that is told comes from the records of observe/; nothing is measured twice.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "config/train_options.h"
#include "observe/record/measurement_log.h"
#include "observe/record/records.h"
#include "observe/record/run_reader.h"
#include "observe/tensorboard/tensorboard.h"
#include "optim/state.h"

namespace reigen {

class Reporter {
 public:
  // `after_step` is the step the attempt starts from, 0 for a new run; `earlier_seconds` what the
  // attempts before it took.
  Reporter(const TrainOptions& options, uint64_t after_step, double earlier_seconds);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  const LogCut& cut() const { return log_.cut(); }

  void start(StartRecord record);
  void forecast(const ForecastRecord& record) { log_.append(record); }
  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  void checkpoint(const CheckpointRecord& record);
  void end(const EndRecord& record);
  void add_lines(const std::vector<std::string>& lines);  // of every rank's log, by rank

  // Before a checkpoint: what it will not repeat is on disk.
  void flush();

 private:
  std::string progress_line(const StepRecord& record, double loss, double rate_of_tokens) const;
  double seconds_left(const StepRecord& record) const;
  void plain_line(const StepRecord& record);
  MeasurementLog& log_of(int rank);
  void show_samples(int rank, const std::string& lines);

  const TrainOptions& options_;
  std::ofstream text_;  // log.txt: a line that a full disk refuses is lost, the log has its facts
  MeasurementLog log_;
  std::map<int, std::unique_ptr<MeasurementLog>> others_;  // of the other ranks
  TensorBoard board_;
  RunReader rollup_;
  uint64_t after_step_;
  double earlier_seconds_;
  // Since the last plain line.
  double loss_sum_ = 0;
  uint64_t finite_steps_ = 0;
  uint64_t tokens_ = 0;
  double seconds_ = 0;
  // Since the start of the attempt, without its first step, which pays for warming up.
  uint64_t attempt_steps_ = 0;
  Stopwatch since_first_;
  double first_epoch_ = 0;
  Stopwatch status_;
};

}  // namespace reigen
