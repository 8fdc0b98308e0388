// The CPU backend: its operations are defined one file each in this folder.
#pragma once

#include "ops/backend.h"

namespace reigen::cpu {

class CpuBackend : public Backend {
 public:
  CpuBackend();
  REIGEN_OPERATIONS(REIGEN_OVERRIDE_OPERATION)

  // c = x x', or x' x if `t`: of Muon.
  virtual void gram(const Device& device, Tensor x, Transpose t, Tensor c);
};

}  // namespace reigen::cpu
