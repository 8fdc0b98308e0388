// --shard-optimizer: each rank stores the moments of its chunk of the parameters, updates that
// chunk, and gets the other chunks by an all-gather (ZeRO stage 1).
//
// Two floats for each parameter become 2/n. The all-gather is in fp32 however gradients are
// compressed, so the weights are, bit for bit, those of ranks that store all moments.
#pragma once

#include <span>

#include "dist/group/group.h"
#include "dist/members/job.h"
#include "optim/state.h"

namespace reigen {

class MomentShards {
 public:
  // Reduces the state's moments to this rank's chunk. All arguments must outlive it.
  MomentShards(Job& job, TrainState& state);

  // This rank's chunk of a vector as long as the parameters.
  std::span<float> own_of(std::span<float> all) const {
    return all.subspan(own_.begin, own_.size());
  }
  // After each rank's update of its chunk: all-gathers the parameters.
  void share_parameters();

  // For a checkpoint, on all ranks: rank 0's state has all moments until release().
  void collect();
  void release();

 private:
  void reduce_to_own(std::vector<float>& moment) const;

  Job& job_;
  TrainState& state_;
  ChunkRange own_;
};

}  // namespace reigen
