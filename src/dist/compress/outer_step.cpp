#include "dist/compress/outer_step.h"

#include <algorithm>

namespace reigen {

OuterStep::OuterStep(Group& group, size_t elements, int64_t every, size_t bucket)
    : reducer_(group, bucket, Wire::kBf16),
      share_(1.0F / static_cast<float>(group.size())),
      every_(static_cast<uint64_t>(every)),
      shared_(elements),
      momentum_(elements),
      delta_(elements) {}

void OuterStep::begin(std::span<const float> parameters) {
  std::copy(parameters.begin(), parameters.end(), shared_.begin());
  begun_ = true;
  steps_ = 0;
}

void OuterStep::resume(uint64_t steps) {
  begun_ = true;
  steps_ = steps;
}

CommStatus OuterStep::after_step(std::span<float> parameters) {
  times_ = {};
  if (++steps_ < every_) return {};
  steps_ = 0;
  for (size_t i = 0; i < delta_.size(); ++i) delta_[i] = share_ * (shared_[i] - parameters[i]);
  reducer_.begin(delta_);
  CommStatus status = reducer_.finish();
  times_ = reducer_.times();
  if (!status.ok()) return status;
  for (size_t i = 0; i < delta_.size(); ++i) {
    momentum_[i] = kMomentum * momentum_[i] + delta_[i];
    shared_[i] -= kRate * (delta_[i] + kMomentum * momentum_[i]);
    parameters[i] = shared_[i];
  }
  return status;
}

}  // namespace reigen
