// The parameters of dropout. The same ones drop the same elements on every device (see
// tensor/philox.h).
#pragma once

#include <cstdint>

#include "tensor/philox.h"

namespace reigen {

struct Dropout {
  float rate = 0;   // 0: no dropout
  RandomSite site;  // inside a step queue (gpu_step.h), its step number replaces site.step
  const uint64_t* tokens = nullptr;  // the global number of each row's token, in device memory

  bool active() const { return rate > 0; }
  float scale() const { return 1 / (1 - rate); }
};

}  // namespace reigen
