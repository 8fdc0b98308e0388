// One attempt at a run, from where the last one ended to where this one does.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "plan/preflight.h"
#include "train/run/run_writer.h"
#include "train/run/setup.h"
#include "train/step/gpu_transport.h"
#include "train/step/stepper.h"
#include "train/workers/rank_logs.h"
#include "train/workers/traced_steps.h"

namespace reigen {

enum class StopReason { kNone, kMaxSteps, kMaxEpochs, kMaxTime, kPatience, kSignal };

// The constructor resumes; run() goes from boundary to boundary: evaluate if
// due, save if due, stop if it is time, else one step. All workers do the same at the same step;
// the first one keeps the run.
class Attempt {
 public:
  // `run` is null for workers that do not keep it.
  Attempt(const TrainOptions& options, RunDirectory* run, Job& job, std::string version);
  void run();

 private:
  void resume(RunDirectory* run);
  void share_state();
  void adopt_device();
  void preflight();
  void make_input();
  void train();
  StopReason reason_to_stop() const;
  double epoch_of(const Cursor& cursor) const;
  bool evaluation_due(StopReason reason) const;
  DecodeOptions decoding() const;
  void evaluate();
  void note_scores(EvaluationRecord& record);
  void save();
  void step();
  void drain();
  void finish_step();
  void tell(const StepRecord& record);
  void exchange_logs();
  bool at_boundary() const;
  void check_divergence();
  [[noreturn]] void diverged(const std::string& what, const std::string& advice);
  AttemptFacts attempt_facts() const;
  void finish(StopReason reason);
  void give_up(const std::string& why);
  double seconds() const { return earlier_seconds_ + watch_.seconds(); }
  bool interrupted() const;
  bool time_over() const;
  bool on_gpu() const { return opened_.device.kind() == DeviceKind::kGpu; }

  const TrainOptions& options_;
  Job& job_;
  std::string version_;
  Stopwatch watch_;
  OpenedDevice opened_;
  TrainingData data_;
  Transformer model_;
  MemoryPlan memory_;
  TrainState state_;
  bool resumed_ = false;
  double earlier_seconds_ = 0;
  std::unique_ptr<RunWriter> writer_;  // the first worker's
  std::unique_ptr<RankLogs> logs_;
  GpuTransport transport_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<TracedSteps> traced_;  // where a timeline was asked for
  std::unique_ptr<Prefetcher> input_;
  Cursor launched_;            // past the last batch that was put to work
  Stopwatch since_last_step_;  // was finished, or since what came between ended; on the CPU
  Stopwatch spans_;            // likewise; its laps are what is not the stepper's
  PreflightReport preflight_;
  double capacity_ = 0;
  double data_seconds_ = 0;  // see StartRecord
  std::optional<uint64_t> saved_step_;
  bool save_wanted_ = false;
  double input_wait_ = 0;
  double observe_ = 0;  // seconds spent on telling of the last step
  uint64_t first_step_ = 0;
};

}  // namespace reigen
