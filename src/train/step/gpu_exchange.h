// Between a GPU and the other workers: the gradient leaves it piece by piece while backward still
// runs, the exchange (exchange.h) makes everybody's of it in the host's memory, and that goes back.
//
// Where the group itself reaches GPUs (NCCL) nothing is copied: pieces are handed over where they
// are as soon as they are complete.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/train_options.h"
#include "model/weights.h"
#include "ops/gpu_ops.h"
#include "train/step/exchange.h"

namespace reigen {

class GpuExchange {
 public:
  // The state while it is on the GPU.
  struct Buffers {
    std::span<float> gradient;
    std::span<float> parameters;
    std::span<float> first_moment;
    std::span<float> second_moment;
    Weights weights;
  };

  // What a worker keeps of its own is put into `state`, so this comes before the state moves to the
  // GPU. `direct` sums where the gradient is, or is null. All that is given must outlive it.
  GpuExchange(Job& job, GpuOps& gpu, const ParameterLayout& layout, const TrainOptions& options,
              TrainState& state, Group* direct);
  void attach(const Buffers& buffers) { buffers_ = buffers; }

  // A step begins, whose gradient will be `scale` times too large.
  void begin(uint64_t step, double scale);
  bool local() const { return exchange_.local(); }
  void ready(size_t elements);  // told when the work that completes them is in line
  // Waits until the sum is on its way to this GPU.
  void finish();
  // The loss of all, whether to stop, and how long each waited (as in step.cpp).
  void agree(LossSums* sums);
  void after_update();

  CommunicationTimes communication() const;
  double compute_seconds() const { return exchange_.compute_seconds(); }

  // Brings the state to the host, and back.
  void fetch();
  void put();
  void collect() { exchange_.collect(); }
  void swap_shared();
  bool apart() const { return exchange_.apart(); }

 private:
  struct Piece {
    size_t end = 0;  // elements
    size_t ticket = 0;
  };
  void fetch_parameters();
  void put_parameters();

  Job& job_;
  GpuOps& gpu_;
  TrainState& state_;
  Device host_;  // where gradients are compressed
  std::unique_ptr<GpuTransfer> transfer_;
  Exchange exchange_;
  Buffers buffers_;
  bool direct_;
  // What was summed last is kept until the next sum is complete, as in step.h: on the host, or
  // where it was summed.
  std::vector<float> gradients_[2];
  std::shared_ptr<void> pinned_[2];
  DeviceBuffer kept_;
  size_t turn_ = 0;
  size_t piece_elements_;
  std::vector<Piece> pieces_;
  double waited_ = 0;      // for the others, since the last time it was told
  double least_wait_ = 0;  // of all ranks
  float unscale_ = 1;      // what a lossy method remembers must not depend on the loss scale
};

}  // namespace reigen
