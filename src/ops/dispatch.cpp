// Each function of the contracts calls the same function of the device's backend.
#include "ops/backend.h"
#include "ops/gpu_backend.h"

namespace reigen {

Backend& backend_of(const Device& device) {
  if (DeviceBackend* own = device.backend()) return static_cast<Backend&>(*own);
  return cpu_backend();
}

GpuBackend* gpu_backend(const Device& device) { return backend_of(device).gpu(); }

#define REIGEN_DISPATCH(result, name, parameters, arguments) \
  result name parameters { return backend_of(device).name arguments; }

REIGEN_OPERATIONS(REIGEN_DISPATCH)

}  // namespace reigen
