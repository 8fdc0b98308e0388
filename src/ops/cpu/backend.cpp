#include "ops/cpu/backend.h"

#include "ops/cpu/library_weight.h"

namespace reigen {

cpu::CpuBackend::CpuBackend() { avoid_broken_instructions(); }

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

}  // namespace reigen
