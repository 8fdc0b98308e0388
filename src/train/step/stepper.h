// Step after step on whatever device: a batch goes in, its record comes out.
//
// On the CPU start() has done everything when it returns. On a GPU it only puts the step in line,
// and records come back a step later, so that the GPU never waits for the host. What a checkpoint
// or an evaluation needs is there once nothing is under way.
#pragma once

#include <cstddef>
#include <memory>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "observe/sample/timeline.h"
#include "optim/state.h"
#include "train/run/checkpoint_writer.h"

namespace reigen {

class Stepper {
 public:
  virtual ~Stepper() = default;

  // The next step after those under way.
  virtual void start(const ReadyBatch& ready) = 0;
  // Waits for the oldest step and moves the counters past it.
  virtual StepRecord finish() = 0;

  virtual size_t under_way() const = 0;
  virtual size_t most_under_way() const = 0;  // at once; more gain nothing
  // Whether the host waits for each step. Where it does, a record lacks what only the caller knows:
  // the wait for input and the whole step's time.
  bool waits() const { return most_under_way() == 1; }

  // Between steps.
  virtual const Weights& weights() const = 0;
  virtual void release_memory() = 0;  // what activations took, until the next step

  // Before a checkpoint, by all workers: what each keeps goes into the first one's state.
  // After it `state` holds everything but what source() knows.
  virtual void collect() {}
  virtual StateSource* source() { return nullptr; }
  virtual void put_state() {}  // `state` was changed since
  virtual void saved() {}      // it was copied: what was collected may go
  // Workers that train apart have weights of their own; the run's take their place until the second
  // call.
  virtual void swap_shared() {}
  virtual bool own_moments() const { return false; }  // each has others

  // What steps do goes there too, from now on; it must outlive the stepper.
  virtual void trace(Timeline* timeline) = 0;
};

// Throws ConfigError where moments cannot be shared out.
void check_sharding(const Device& device, const WorkerOptions& options);

// All that is given must outlive it; `direct` sums gradients where they are, on GPUs, and may be
// null. On a GPU parameters and moments move there and `state` keeps only its counters.
std::unique_ptr<Stepper> make_stepper(const Device& device, DType type, Transformer& model,
                                      const TrainOptions& options, TrainState& state, Job& job,
                                      Group* direct = nullptr);

// What is known of a step before it is computed, and what changes when it is done.
StepRecord record_of(const TrainOptions& options, uint64_t step, const ReadyBatch& ready);
uint64_t own_target_tokens(const ReadyBatch& ready);  // of this worker's share; at least 1
void count_step(Counters& counters, const StepRecord& record, const Cursor& end);

}  // namespace reigen
