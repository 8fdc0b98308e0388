#include "ops/cuda/step.h"

namespace reigen::cuda {
namespace {

template <class T>
__global__ void store_kernel(const T value, T* to) {
  *to = value;
}

}  // namespace

StepControl initial_control(const LossScaleRules& rules) {
  StepControl control;
  if (rules.policy == LossScaling::kOff) return control;
  control.loss_scale = rules.start;
  control.ceiling = rules.policy == LossScaling::kBackoff ? rules.start : rules.most;
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
