// The exchange between workers in a step: gradients, exact or compressed, or with local steps
// (DiLoCo) the weights every H steps.
//
// A run begins with a warm-up in which gradients are sent as int4 with error feedback, without a
// measurable loss of quality: stronger compression hurts most while the loss still falls fast
// (PowerSGD's authors; docs/design/compression.md). The residual of the warm-up is passed on to the
// method that follows. For a checkpoint, rank 0 collects the compressor states of all ranks; on
// resume it returns each to its rank, or drops all of them with a warning if the number of workers
// or the method has changed.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "dist/compress/compressor.h"
#include "dist/compress/outer_step.h"
#include "dist/members/job.h"
#include "observe/record/records.h"
#include "ops/projection_loss.h"
#include "optim/state.h"

namespace reigen {

class Exchange {
 public:
  // `state` is the run's: it names the method, the last step of the warm-up and the bucket size,
  // and its worker states are consumed; not collective on a worker that was added to an elastic job
  // and has no state yet. `group` reduces gradients; null for the job's own group.
  // All arguments must outlive the exchange. In an elastic job each step ends with commit() or
  // restore().
  Exchange(Job& job, const Device& device, const ParameterLayout& layout, uint64_t seed,
           TrainState& state, Group* group = nullptr);

  // Begins a step. In a local() step the gradient is not reduced.
  void begin(uint64_t step, std::span<float> gradient);
  bool local() const { return local_; }
  // Whether `step` is the first local step, and whether the step under way ends with an outer step:
  // both use the parameters.
  bool first_local_step(uint64_t step) const {
    return outer_ && !outer_->begun() && !in_warmup(step);
  }
  bool outer_step_next() const { return outer_ && outer_->syncs_next(); }
  // In an elastic job, before the first ready(): sums the loss over all ranks ahead of the
  // gradient, so that a rank that holds the reduced gradient of a step can commit the step without
  // the others.
  void sum_losses(const LossSums& mine);
  LossSums losses() const { return {losses_[0], losses_[1]}; }  // over all ranks, after finish()
  // The first `elements` of the gradient are final: their reduction may begin.
  void ready(size_t elements);
  // Blocks until the whole gradient is reduced. Throws CommError.
  void finish();
  // After the update of a local step. An outer step leaves all ranks with the same weights.
  void after_update();

  // The compressor's state of the step becomes the current one, or the step will be done again.
  void commit();
  void restore();
  // The job formed its group again; `group` as in the constructor. The compressor's state stays.
  void rejoin(Group* group = nullptr);
  // The part of the compressor's state that is the same on all ranks.
  std::vector<std::span<float>> shared_state();

  // Measurements of the last step.
  CommunicationTimes communication() const;
  double compute_seconds() const { return compute_; }      // of compression
  double ready_seconds() const { return ready_seconds_; }  // of these, during backward

  // For a checkpoint: gathers every rank's compressor state into rank 0's TrainState, named by
  // rank.
  void collect();
  // Exchanges this worker's weights with those of the last outer step; a second call undoes it.
  void swap_shared();
  bool between_outer_steps() const { return outer_ && outer_->begun(); }
  // After a step: the number of steps, this one included, since all ranks had the same weights; 0
  // where they differ, within local steps.
  uint64_t steps_with_shared_weights() const;

 private:
  bool in_warmup(uint64_t step) const {
    return warmup_ != nullptr && step <= state_.choices.compress_warmup;
  }
  std::string state_owner() const;
  std::vector<StateTensor> states();
  void resume();
  struct Sent {
    uint64_t bytes = 0;
    uint64_t inter_node_bytes = 0;
  };
  Sent sent() const;  // since the group was formed

  Job& job_;
  Group* group_;
  TrainState& state_;
  CompressSetting setting_;
  std::unique_ptr<Compressor> warmup_;  // null after the warm-up
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<OuterStep> outer_;  // with local steps
  Compressor* now_ = nullptr;         // of the step under way; null in a local step
  bool local_ = false;
  std::array<double, 2> losses_ = {};
  Pending losses_sum_;
  Sent sent_before_;
  double ready_seconds_ = 0;
  double compute_ = 0;
  ReduceTimes times_;
};

// For a single worker, which has no use for the compressor states of several: drops them, with a
// warning.
void drop_worker_states(TrainState& state);

}  // namespace reigen
