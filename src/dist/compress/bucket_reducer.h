// The dense methods (none, bf16, fp16, int8, int4): the whole gradient is summed over all ranks, in
// buckets that leave while backward still computes the rest.
//
// The flat gradient is laid out in the order in which backward completes it (tensor/parameters.h),
// so the complete elements are always a prefix. The bucket completed last cannot be hidden.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dist/compress/compressor.h"

namespace reigen {

// Equal buckets of about `wanted` elements, in whole blocks: a small last bucket would leave the
// link idle.
size_t even_bucket(size_t elements, size_t wanted);

class BucketReducer : public Compressor {
 public:
  // Buckets of about `bucket` elements. `residual`: for error feedback, or null.
  BucketReducer(Group& group, size_t bucket, Wire wire,
                std::shared_ptr<Residual> residual = nullptr);

  void begin(std::span<float> gradient) override;
  void ready(size_t elements) override;
  CommStatus finish() override;

  const std::vector<OpTimes>& buckets() const { return buckets_; }  // of the last finished step
  ReduceTimes times() const override { return reduce_times(buckets_, computed_); }
  std::vector<StateTensor> state() override;
  std::shared_ptr<Residual> residual() override { return residual_; }
  void commit() override {
    if (residual_) residual_->commit();
  }
  void use(Group& group) override { group_ = &group; }

 private:
  Group* group_;
  size_t wanted_bucket_;
  Wire wire_;
  std::shared_ptr<Residual> residual_;
  std::span<float> gradient_;
  size_t bucket_ = 0;
  size_t sent_ = 0;
  std::vector<Pending> pending_;
  std::vector<OpTimes> buckets_;
  CommClock::time_point computed_;  // when finish() was called
};

}  // namespace reigen
