// The exchange of a GPU with the other workers. Buckets of the gradient are copied to host memory
// while backward still runs; exchange.h reduces them over all ranks there, and the result is copied
// back to the GPU.
//
// Where the group reaches GPUs itself (NCCL) nothing is copied: buckets are reduced in GPU memory
// as soon as they are final.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/train_options.h"
#include "model/weights.h"
#include "ops/gpu_backend.h"
#include "train/step/exchange.h"

namespace reigen {

class GpuExchange {
 public:
  // The training state on the GPU.
  struct Buffers {
    std::span<float> gradient;
    std::span<float> parameters;
    std::span<float> first_moment;
    std::span<float> second_moment;
    Weights weights;
  };

  // Puts a resumed worker's own weights and moments into `state`, so this comes before the state
  // moves to the GPU. `direct` reduces in GPU memory; null to go through the host. All arguments
  // must outlive it.
  GpuExchange(Job& job, const Device& gpu, const ParameterLayout& layout,
              const TrainOptions& options, TrainState& state, Group* direct);
  void attach(const Buffers& buffers) { buffers_ = buffers; }

  // Begins a step whose gradient will be `scale` times too large.
  void begin(uint64_t step, double scale);
  bool local() const { return exchange_.local(); }
  // In an elastic job: throws WorkerLost if a worker was lost, and does nothing elsewhere.
  void check();
  // The work that makes this rank's loss sums, in GPU memory, final is queued on the GPU.
  void losses_final(const LossSums* sums);
  // The work that makes the first `elements` of the gradient final is queued on the GPU.
  void ready(size_t elements);
  // Blocks until the gradient is reduced and its copy to the GPU is queued.
  void finish();
  // Replaces this rank's loss sums, in GPU memory, by those over all ranks (step_agreement.h); by
  // NaN, which makes every GPU skip the step, if one rank's gradient is not finite.
  void agree(LossSums* sums);
  void after_update();
  // Replaces the loss sums by those that were reduced ahead of the gradient.
  void take_losses(LossSums* sums);
  // As in exchange.h.
  void commit() { exchange_.commit(); }
  void abandon();
  void rejoin(Group* direct);
  std::vector<std::span<float>> shared_state() { return exchange_.shared_state(); }

  CommunicationTimes communication() const;
  double compute_seconds() const { return exchange_.compute_seconds(); }

  // Copies the training state to the host, and back.
  void fetch();
  void put();
  void collect() { exchange_.collect(); }
  void swap_shared();
  bool between_outer_steps() const { return exchange_.between_outer_steps(); }
  uint64_t steps_with_shared_weights() const { return exchange_.steps_with_shared_weights(); }

 private:
  struct Bucket {
    size_t end = 0;     // elements
    size_t ticket = 0;  // of its copy to the host
  };
  void pin_gradient(size_t elements);
  void fetch_parameters();
  void put_parameters();

  Job& job_;
  const Device& device_;
  Gpu& gpu_;
  GpuBackend& backend_;
  TrainState& state_;
  Device host_;  // compresses gradients
  std::unique_ptr<GpuTransfer> transfer_;
  Exchange exchange_;
  Buffers buffers_;
  bool direct_;
  std::vector<float> gradient_;  // in host memory, unless direct_
  std::shared_ptr<void> pinned_;
  LossSums losses_;  // of this rank, in pinned memory; only in an elastic job, as the next two
  std::shared_ptr<void> pinned_losses_;
  std::optional<size_t> losses_ticket_;  // of their copy to the host
  size_t bucket_elements_;
  std::vector<Bucket> buckets_;
  double waited_ = 0;    // seconds for other ranks, since the last agreement
  double min_wait_ = 0;  // of all ranks, by the last agreement
  float unscale_ = 1;    // a residual must not depend on the loss scale
};

}  // namespace reigen
