#include "dist/compress/outer_step.h"

#include <algorithm>

namespace reigen {

OuterStep::OuterStep(Group& group, size_t elements, int64_t every, size_t bucket)
    : group_(group),
      every_(static_cast<uint64_t>(every)),
      bucket_(bucket),
      shared_(elements),
      momentum_(elements),
      way_(elements) {}

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
  const float part = 1.0F / static_cast<float>(group_.size());
  for (size_t i = 0; i < way_.size(); ++i) way_[i] = part * (shared_[i] - parameters[i]);
  BucketReducer reducer(group_, way_, bucket_, Wire::kBf16);
  reducer.begin();
  CommStatus status = reducer.finish();
  times_ = reducer.times();
  if (!status.ok()) return status;
  for (size_t i = 0; i < way_.size(); ++i) {
    momentum_[i] = kMomentum * momentum_[i] + way_[i];
    shared_[i] -= kRate * (way_[i] + kMomentum * momentum_[i]);
    parameters[i] = shared_[i];
  }
  return status;
}

}  // namespace reigen
