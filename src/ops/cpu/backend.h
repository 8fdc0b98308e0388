// The CPU backend: its operations are defined one file each in this folder.
#pragma once

#include "ops/backend.h"

namespace reigen::cpu {

class CpuBackend : public Backend {
 public:
  CpuBackend();
  REIGEN_OPERATIONS(REIGEN_OVERRIDE_OPERATION)
};

}  // namespace reigen::cpu
