// The CPU's own forms of a weight, behind one interface.
#pragma once

#include "ops/packed_weight.h"

namespace reigen::cpu {

class CpuWeight : public PackedWeight {
 public:
  // y = x w'; x has at least one row.
  virtual void multiply(const Device& device, Tensor x, Tensor y) const = 0;
};

}  // namespace reigen::cpu
