// Local steps (DiLoCo, Douillard et al. 2023): workers train on their own and synchronise their
// weights every H steps.
//
// Each worker takes its own optimizer steps on its share of the batches. Every H steps the mean
// over all workers of (shared weights - own weights) is the gradient of one outer step of
// Nesterov's method on the shared weights; all workers continue from the result, each with its own
// moments.
#pragma once

#include "dist/compress/bucket_reducer.h"

namespace reigen {

class OuterStep {
 public:
  static constexpr float kRate = 0.7F;  // both as in the paper
  static constexpr float kMomentum = 0.9F;

  OuterStep(Group& group, size_t elements, int64_t every, size_t bucket);

  // The parameters, the same on all ranks, become the first shared weights.
  void begin(std::span<const float> parameters);
  bool begun() const { return begun_; }

  // After a local step; every H-th call is an outer step, after which all parameters are equal.
  CommStatus after_step(std::span<float> parameters);
  bool syncs_next() const {
    return steps_ + 1 >= every_;
  }  // whether the next call is an outer step

  // The weights after the last outer step.
  std::span<float> shared() { return shared_; }
  ReduceTimes times() const { return times_; }

  // Local steps since the last outer step; a checkpoint stores them with state().
  uint64_t steps() const { return steps_; }
  void resume(uint64_t steps);  // with state() filled in
  std::vector<StateTensor> state() {
    return {{.name = "momentum", .values = momentum_, .per_rank = false}};
  }

 private:
  BucketReducer reducer_;
  float share_;  // of a worker in the mean
  uint64_t every_;
  bool begun_ = false;
  uint64_t steps_ = 0;
  std::vector<float> shared_;
  std::vector<float> momentum_;
  std::vector<float> delta_;
  ReduceTimes times_;
};

}  // namespace reigen
