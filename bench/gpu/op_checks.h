// Every CUDA operation against its double-precision reference on random inputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/cuda/context.h"

namespace reigen::bench {

// The worst of an operation's checks: error over what its type allows.
struct CheckResult {
  int checks = 0;
  int failed = 0;
  double error = 0;
  double tolerance = 0;
  double ratio = 0;
  std::string worst;  // which case
};
using CheckResults = std::map<std::string, CheckResult>;

// `quick` leaves out long sentences and takes products' first algorithms, for runs under a
// sanitizer.
CheckResults check_operations(const cuda::Context& context, uint64_t seed, bool quick);

}  // namespace reigen::bench
