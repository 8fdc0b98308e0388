#include "dist/compress/bucket_reducer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "dist/group/block_format.h"

namespace reigen {
namespace {

// Compares exponents as integers, which vectorises.
bool all_finite(std::span<const float> values) {
  int32_t largest = 0;
  for (const float x : values) {
    largest = std::max(largest, std::bit_cast<int32_t>(x) & 0x7FFFFFFF);
  }
  return largest < 0x7F800000;
}

}  // namespace

size_t even_bucket(size_t elements, size_t wanted) {
  const size_t buckets = std::max<size_t>(1, (elements + wanted / 2) / std::max<size_t>(1, wanted));
  const size_t even = (elements + buckets - 1) / buckets;
  return std::max(kBlockValues, (even + kBlockValues - 1) / kBlockValues * kBlockValues);
}

BucketReducer::BucketReducer(Group& group, size_t bucket, Wire wire,
                             std::shared_ptr<Residual> residual)
    : group_(&group), wanted_bucket_(bucket), wire_(wire), residual_(std::move(residual)) {}

void BucketReducer::begin(std::span<float> gradient) {
  gradient_ = gradient;
  bucket_ = even_bucket(gradient.size(), wanted_bucket_);
  sent_ = 0;
  pending_.clear();
  buckets_.clear();
}

void BucketReducer::ready(size_t elements) {
  elements = std::min(elements, gradient_.size());
  while (sent_ < elements) {
    const size_t size = std::min(bucket_, gradient_.size() - sent_);
    if (sent_ + size > elements) return;
    ErrorFeedback feedback;
    if (residual_) {
      feedback = {residual_->last().subspan(sent_, size), residual_->next().subspan(sent_, size)};
    }
    pending_.push_back(group_->all_reduce(gradient_.subspan(sent_, size), wire_, feedback));
    sent_ += size;
  }
}

CommStatus BucketReducer::finish() {
  computed_ = CommClock::now();
  ready(gradient_.size());
  CommStatus status;
  for (const Pending& bucket : pending_) {
    // Wait for all, even after a failure: they use the gradient until they have ended.
    CommStatus ended = bucket.wait();
    if (status.ok()) status = std::move(ended);
    buckets_.push_back(bucket.times());
  }
  pending_.clear();
  // All ranks skip a step with a non-finite gradient; its residual would spoil the next step.
  if (residual_ && !all_finite(gradient_)) std::ranges::fill(residual_->next(), 0.0F);
  return status;
}

// "unsent" is the tensor's name in checkpoints.
std::vector<StateTensor> BucketReducer::state() {
  if (!residual_) return {};
  return {{.name = "unsent", .values = residual_->last(), .per_rank = true}};
}

}  // namespace reigen
