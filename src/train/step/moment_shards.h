// The optimizer's moments shared out: each worker has those of its chunk of the parameters, updates
// that chunk, and gets the rest from the others. Two numbers of each parameter become 2/n; the
// parameters travel after each update, in fp32 however gradients do. The weights are, bit for bit,
// those of workers that all have everything.
#pragma once

#include <span>

#include "dist/group/group.h"
#include "dist/members/job.h"
#include "optim/state.h"

namespace reigen {

class MomentShards {
 public:
  // The state has all moments, and only this worker's afterwards. All that is given must outlive
  // it.
  MomentShards(Job& job, TrainState& state);

  std::span<float> own_of(std::span<float> all) const {
    return all.subspan(own_.begin, own_.size());
  }
  // After everybody's update of its own: all have all parameters.
  void share_parameters();

  // For a checkpoint, by all: the first worker's state has all moments until release().
  void collect();
  void release();

 private:
  void keep_own(std::vector<float>& moment) const;

  Job& job_;
  TrainState& state_;
  ChunkRange own_;
};

}  // namespace reigen
