// The parts of an attempt at a run, and how they are made: device, data, model, the state to start
// from, the stepper, the input.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "config/train_options.h"
#include "data/prefetch.h"
#include "dist/members/job.h"
#include "model/open_device.h"
#include "model/transformer.h"
#include "optim/state.h"
#include "train/run/run_places.h"
#include "train/run/run_writer.h"
#include "train/run/serve_page.h"
#include "train/run/setup.h"
#include "train/step/gpu_transport.h"
#include "train/step/stepper.h"
#include "train/workers/preemption.h"
#include "train/workers/replay.h"
#include "train/workers/shares.h"
#include "train/workers/traced_steps.h"

namespace reigen {

// Each member uses only members above it, and is destroyed before them.
struct AttemptParts {
  AttemptParts(const TrainOptions& options, Job& job);
  AttemptParts(const AttemptParts&) = delete;
  AttemptParts& operator=(const AttemptParts&) = delete;

  bool on_gpu() const { return opened.device.kind() == DeviceKind::kGpu; }
  // Seconds since the run began, all attempts together.
  double run_seconds() const { return earlier_seconds + watch.seconds(); }

  TrainOptions options;  // with the last step of the run in its schedule
  Job& job;
  Stopwatch watch;  // since the attempt began
  OpenedDevice opened;
  TrainingData data;
  std::optional<ValidationSet> old_valid;  // of eval.old-data
  Transformer model;
  TrainState state;
  AttemptFacts facts;
  double earlier_seconds = 0;             // of earlier attempts
  PreemptionWatch* preemption = nullptr;  // outlives the parts; null: no notices are asked for
  GpuTransport transport;
  std::unique_ptr<Stepper> stepper;
  RunPlaces run_places;                      // of an elastic job's run
  uint64_t copy_seen = 0;                    // step of the second copy, if this host has it
  std::unique_ptr<RunDirectory> taken_over;  // if this worker became the writer
  // The directory of the steps before, if this worker became the writer without seeing it; until
  // that is recorded.
  std::string earlier_run;
  // Since a loss the run lacks its last checkpoint: its directory is new, or the writer before had
  // it in memory only.
  bool lacks_checkpoint = false;
  bool cannot_write = false;          // this worker failed to become the writer
  std::unique_ptr<PageProcess> page;  // of such a run
  // Null except on rank 0. Its thread writes checkpoints that the stepper copies.
  std::unique_ptr<RunWriter> writer;
  std::unique_ptr<TracedSteps> traced;  // null without --timeline
  std::unique_ptr<WorkerShares> shares;
  std::unique_ptr<Replay> replay;
  std::unique_ptr<Prefetcher> input;
};

// Opens device and data, resumes or starts the run, measures the job, and builds the rest. All
// ranks call it; `run` is null except on rank 0. Run and job must outlive the parts.
std::unique_ptr<AttemptParts> prepare_attempt(const TrainOptions& given, RunDirectory* run,
                                              Job& job, const std::string& version);

// The same for a process that asks to be added to a running job (train/joiner.h): device, data and
// model, without state, stepper and input, which recovery makes when the process is added.
// `choices`: those that the job has made and that concern the device. Not collective.
std::unique_ptr<AttemptParts> prepare_joiner(const TrainOptions& given, const Choices& choices,
                                             Job& job, const std::string& version);

// The validation set of eval.old-data, for workers that do not read it themselves.
std::string old_set_text(const AttemptParts& parts);
void read_old_set(const std::string& text, AttemptParts& parts);

// The workers of an elastic job by rank, for records; empty for a different job.
std::vector<MemberEntry> member_entries(Job& job);

// Batches from the state's cursor on, this worker's share of each.
std::unique_ptr<Prefetcher> make_input(AttemptParts& parts);

}  // namespace reigen
