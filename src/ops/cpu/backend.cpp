#include "ops/cpu/backend.h"

#include "ops/cpu/library_weight.h"

namespace reigen {

cpu::CpuBackend::CpuBackend() {
  avoid_broken_instructions();
  keep_no_products();
}

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

}  // namespace reigen
