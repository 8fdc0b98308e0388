#include "base/error.h"
#include "ops/gpu_backend.h"

namespace reigen {

Device open_gpu(int) {
  throw DeviceError(
      "this reigen was built without its CUDA backend; build it with `cmake --preset cuda` where "
      "nvcc is found, or use --device cpu");
}

}  // namespace reigen
