#include "ops/cpu/backend.h"

namespace reigen {

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

}  // namespace reigen
