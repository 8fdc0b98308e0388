// Optimizer steps on any device: a batch goes in, its result comes out.
//
// On the CPU, and among several workers, start() returns when the step is computed. A single GPU
// only queues the step, and results come back a step later, so that the GPU never waits for the
// host. Evaluations and checkpoints come between steps, when none is under way.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/train_options.h"
#include "data/prefetch.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "model/transformer.h"
#include "observe/sample/timeline.h"
#include "optim/state.h"
#include "train/directory/checkpoint_writer.h"
#include "train/step/step_result.h"

namespace reigen {

// For as long as it lives, Stepper::weights() are different ones: from shared_weights(), the run's
// weights, which differ from a worker's own only between the outer steps of DiLoCo (--compress
// local), where they are those of the last outer step; from averaged_weights(), the moving average
// of the run's weights. The worker's own weights return on any exit from the scope.
class SwappedWeights {
 public:
  // `swap` exchanges the two sets of weights; empty where there is only one.
  explicit SwappedWeights(std::function<void()> swap);
  ~SwappedWeights();  // swaps back; an error cannot leave from here
  SwappedWeights(const SwappedWeights&) = delete;
  SwappedWeights& operator=(const SwappedWeights&) = delete;

  // Swaps back now, at the end of a scope without an error. Throws DeviceError.
  void end();

 private:
  std::function<void()> swap_;
};

// The training state as a checkpoint needs it, for as long as this lives: all ranks' compressor
// states and moments are collected in rank 0's TrainState, with the run's weights. All workers make
// one after the same step.
class Snapshot {
 public:
  virtual ~Snapshot() = default;  // as end()

  // Holds parameters and moments where TrainState does not (on a GPU); null otherwise.
  virtual StateSource* source() { return nullptr; }
  // Whether each rank has moments of its own (sharded, or between outer steps).
  virtual bool own_moments() const = 0;
  // TrainState was changed: its parameters and moments replace those in use.
  virtual void reload() {}
  // The state was copied: the worker's own weights return, and rank 0 drops the collected moments.
  virtual void end() = 0;
};

// Where a worker stands when a collective has failed (docs/design/elastic.md).
struct StepPosition {
  uint64_t committed = 0;  // step
  bool began = false;      // the step after it is under way
  // Whether it holds the reduced gradient of the step under way, and the loss over all ranks: all
  // that is needed to commit it.
  bool reduced = false;
};

class Stepper {
 public:
  virtual ~Stepper() = default;

  // Begins the step after those under way.
  virtual void start(const ReadyBatch& ready) = 0;
  // Waits for the oldest step under way and moves the counters past it.
  virtual StepResult finish() = 0;

  // In an elastic job, start() may fail with WorkerLost. Then the step under way is committed after
  // all, from the worker's own memory, to be finish()ed as usual, or forgotten, to be started
  // again.
  virtual StepPosition position() const = 0;
  virtual void roll_forward() = 0;  // only if position().reduced
  virtual void abandon() = 0;
  // The job formed its group again; `direct` as in make_stepper().
  virtual void rejoin(Group* direct) = 0;
  // For a worker that is added: copies parameters, moments and average into TrainState where they
  // are not there already; what the compressors of all ranks share, to be sent or replaced.
  virtual void fetch_state() = 0;
  virtual std::vector<std::span<float>> shared_compressor_state() = 0;

  virtual size_t under_way() const = 0;
  virtual size_t most_under_way() const = 0;  // further steps would only wait

  // Called only while no step is under way.
  virtual const Weights& weights() const = 0;
  virtual void release_memory() = 0;  // frees the activations' memory until the next step
  virtual SwappedWeights shared_weights() = 0;
  virtual SwappedWeights averaged_weights() = 0;  // only with ema.decay
  virtual std::unique_ptr<Snapshot> snapshot() = 0;

  // Steps are also recorded in `timeline` from now on; it must outlive the last step.
  virtual void trace(Timeline* timeline) = 0;
};

// Throws ConfigError where --shard-optimizer is not available.
void check_sharding(const Device& device, const TrainOptions& options);

// All arguments must outlive the stepper. `direct` reduces gradients between GPUs (NCCL); null
// where they go through host memory. On a GPU, parameters and moments move there and `state` holds
// only the counters.
std::unique_ptr<Stepper> make_stepper(const Device& device, DType type, Transformer& model,
                                      const TrainOptions& options, TrainState& state, Job& job,
                                      Group* direct = nullptr);

}  // namespace reigen
