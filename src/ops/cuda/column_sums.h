// Sums over tokens of one number per column (gradients of gains, shifts and biases).
//
// Each block of a backward kernel writes one row of partial sums. Adding those up after each of the
// 44 operations of a step would cost a launch of 7 us each, so it is delayed: partial sums collect
// here and add_up() adds all of them in one launch, before a layer's gradients are ready. Rows are
// added in a fixed tree without float atomics, so the same grid gives the same bits.
#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda/runtime.h"

namespace reigen::cuda {

// Up to three targets lie side by side in a partial row: [parts][targets][width]. A null target is
// skipped.
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

  // Memory for `parts` rows of partial sums, which add_up() adds to the targets. Calls add_up()
  // first when there is no room, or when a target has other sums pending.
  float* reserve(cudaStream_t stream, int parts, const ColumnTargets& targets);
  void add_up(cudaStream_t stream);

  struct Job {
    const float* partials;
    ColumnTargets targets;
    int parts;
    int first_block;
  };

 private:
  bool pending(const ColumnTargets& targets) const;

  DeviceMemory memory_;
  size_t used_ = 0;  // floats
  std::vector<Job> jobs_;
};

}  // namespace reigen::cuda
