#include "ops/cuda/step.h"

namespace reigen::cuda {
namespace {

template <class T>
__global__ void store_kernel(const T value, T* to) {
  *to = value;
}

__global__ void break_kernel() { *reinterpret_cast<volatile int*>(16) = 1; }

}  // namespace

void break_on_purpose(cudaStream_t stream) {
  break_kernel<<<1, 1, 0, stream>>>();
  check_launch("break on purpose");
}

StepControl initial_control(const LossScaling& scaling) {
  StepControl control;
  if (scaling.policy == LossScaling::Policy::kOff) return control;
  control.loss_scale = scaling.start;
  control.ceiling = scaling.policy == LossScaling::Policy::kBackoff ? scaling.start : scaling.most;
  return control;
}

void store(cudaStream_t stream, const StepSettings& value, StepSettings* to) {
  store_kernel<<<1, 1, 0, stream>>>(value, to);
  check_launch("store step settings");
}

void store(cudaStream_t stream, const StepControl& value, StepControl* to) {
  store_kernel<<<1, 1, 0, stream>>>(value, to);
  check_launch("store step control");
}

}  // namespace reigen::cuda
