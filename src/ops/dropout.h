// What an operation needs to know to drop elements the same way everywhere (see tensor/philox.h).
#pragma once

#include <cstdint>

#include "tensor/philox.h"

namespace reigen {

struct Dropout {
  float rate = 0;  // 0 switches it off
  RandomSite site;
  const uint64_t* tokens =
      nullptr;  // the global number of each row's token, in the device's memory

  bool active() const { return rate > 0; }
  float scale() const { return 1 / (1 - rate); }
};

}  // namespace reigen
