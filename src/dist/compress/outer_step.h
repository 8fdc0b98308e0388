// Local steps (DiLoCo, Douillard et al. 2023): workers train apart and meet every so often.
//
// Each takes its own optimizer steps on its share of the batches. Every H steps the way all went
// from where they last met, averaged, is the gradient of one step of Nesterov's method, and
// everybody goes on from there; the optimizers keep their moments.
#pragma once

#include "dist/compress/compressor.h"

namespace reigen {

class OuterStep {
 public:
  static constexpr float kRate = 0.7F;  // both as in the paper
  static constexpr float kMomentum = 0.9F;

  OuterStep(Group& group, size_t elements, int64_t every, size_t bucket);

  // The parameters, the same on all ranks, are where they meet first.
  void begin(std::span<const float> parameters);
  bool begun() const { return begun_; }

  // After a step of its own; every H-th time all meet. Their parameters are the same then.
  CommStatus after_step(std::span<float> parameters);
  bool meets_next() const { return steps_ + 1 >= every_; }  // in the next call
  bool met() const { return steps_ == 0; }                  // in the last call

  // Where all met last.
  std::span<float> shared() { return shared_; }
  ReduceTimes times() const { return times_; }

  // The number of steps since they met is kept with it.
  uint64_t steps() const { return steps_; }
  void resume(uint64_t steps);  // with kept() filled in
  std::vector<KeptTensor> kept() { return {{"momentum", momentum_, false}}; }

 private:
  Group& group_;
  uint64_t every_;
  size_t bucket_;
  bool begun_ = false;
  uint64_t steps_ = 0;
  std::vector<float> shared_;
  std::vector<float> momentum_;
  std::vector<float> way_;
  ReduceTimes times_;
};

}  // namespace reigen
