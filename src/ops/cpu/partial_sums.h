// Sums over tokens of one number per column (gradients of norms and biases), taken in parallel.
//
// Each part of a parallel_for adds to rows of its own; the rows are then added in the order of the
// parts. So a sum depends on the number of threads, but never on their timing.
#pragma once

#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen::cpu {

class PartialSums {
 public:
  PartialSums(int parts, std::vector<Tensor> targets);  // empty targets are skipped

  float* row(int part, size_t target);  // null for an empty target
  void add_to_targets() const;

 private:
  std::vector<Tensor> targets_;
  std::vector<size_t> offsets_;
  size_t width_ = 0;
  std::vector<float> sums_;
};

}  // namespace reigen::cpu
