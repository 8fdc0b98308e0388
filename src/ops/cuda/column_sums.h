// Sums over tokens of one number per column (gradients of gains, shifts and biases).
//
// The blocks of a backward kernel leave one row of partial sums each. Adding those up is a small
// kernel that would cost a launch of 7 us after each of 44 operations of a step, so it waits: sums
// pile up here and Context::settle() adds all of them in one launch, before a layer's gradients are
// called ready. Rows are added in a fixed tree; no float atomics, so the same grid gives the same
// bits.
#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda/runtime.h"

namespace reigen::cuda {

// Up to three targets lie side by side in a partial row: [parts][targets][width]. A null target is
// passed over.
struct ColumnTargets {
  float* target[3] = {};
  int targets = 0;
  int width = 0;
};

class ColumnSums {
 public:
  static constexpr size_t kBytes = size_t{64} << 20;
  static constexpr int kJobs = 16;

  ColumnSums();

  // Room for `parts` rows of partial sums, to be added to the targets by settle(). Settles first
  // when there is no room, or when a target is already waiting for other sums.
  float* reserve(cudaStream_t stream, int parts, const ColumnTargets& targets);
  void settle(cudaStream_t stream);

  struct Job {
    const float* partials;
    ColumnTargets targets;
    int parts;
    int first_block;
  };

 private:
  bool waiting(const ColumnTargets& targets) const;

  DeviceMemory memory_;
  size_t used_ = 0;  // floats
  std::vector<Job> jobs_;
};

}  // namespace reigen::cuda
