// What workers give each other in a step: gradients, whole or compressed, or every so often
// weights.
//
// A run begins with a warm-up in which gradients travel as int4, which loses nothing that could be
// measured: leaving more out hurts most while the loss still falls fast (PowerSGD's authors and
// ours: docs/design/compression.md). What rounding kept back then is the method's to send. What a
// method remembers is collected by the first worker for a checkpoint and given back on resume. With
// another number of workers, or another method, there is nothing to give back: that is said.
#pragma once

#include <memory>
#include <string>

#include "dist/compress/compressor.h"
#include "dist/compress/outer_step.h"
#include "dist/members/job.h"
#include "observe/record/records.h"
#include "optim/state.h"

namespace reigen {

class Exchange {
 public:
  // `state` is the run's: its counters say which method, from which step, in pieces of which size;
  // what it kept is taken from it. All that is given must outlive it.
  // `group` sums gradients, or is null for the job's own.
  Exchange(Job& job, const Device& device, const ParameterLayout& layout, uint64_t seed,
           TrainState& state, Group* group = nullptr);

  // A step begins. Where it is local() the gradient stays each worker's own.
  void begin(uint64_t step, std::span<float> gradient);
  bool local() const { return local_; }
  // What happens to the parameters: this step is the first of each worker's own; after the step
  // under way all meet.
  bool parts_with(uint64_t step) const { return outer_ && !outer_->begun() && !in_warmup(step); }
  bool meets_next() const { return outer_ && outer_->syncs_next(); }
  void ready(size_t elements);
  void finish();
  // After the update of a local step. All weights are the same when they have met.
  void after_update();

  // Of this step: what the network did, and seconds of compressing.
  CommunicationTimes communication() const;
  double compute_seconds() const { return compute_; }
  double ready_seconds() const { return ready_seconds_; }  // of them, while backward ran

  // For a checkpoint: everybody's state goes to the first worker's `state`, with whose it is.
  void collect();
  // Between local steps the run's weights are those all met at; they take the place of the
  // worker's own until the second call.
  void swap_shared();
  bool apart() const { return outer_ && outer_->begun(); }

 private:
  bool in_warmup(uint64_t step) const {
    return first_ != nullptr && step <= state_.counters.compress_warmup;
  }
  std::string state_owner() const;
  std::vector<StateTensor> kept();
  void restore();
  // Bytes since the workers met: to all others, and of that to other machines.
  struct Sent {
    uint64_t bytes = 0;
    uint64_t away = 0;
  };
  Sent sent() const;

  Job& job_;
  Group& group_;
  TrainState& state_;
  CompressSetting setting_;
  std::unique_ptr<Compressor> first_;  // of the warm-up
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<OuterStep> outer_;
  Compressor* now_ = nullptr;
  bool local_ = false;
  Sent sent_before_;
  double ready_seconds_ = 0;
  double compute_ = 0;
  ReduceTimes times_;
};

// A single worker has nothing to exchange: what several kept is dropped, and that is said.
void drop_kept(TrainState& state);

}  // namespace reigen
