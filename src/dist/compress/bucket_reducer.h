// Gradients summed over all ranks in buckets, each of which leaves as soon as backward has finished
// it, so that the network works while the model still computes.
//
// The flat gradient is laid out in the order backward finishes it (tensor/parameters.h): what is
// complete is always a prefix. The bucket that is finished last cannot hide behind anything.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/group/group.h"

namespace reigen {

struct BucketTimes {
  size_t elements = 0;
  CommClock::time_point ready;  // complete, and handed to the group
  CommClock::time_point begin;  // its turn came
  CommClock::time_point end;
};

// Where the time of a step's communication went, in seconds.
struct ReduceTimes {
  double busy = 0;      // the network had something to do
  double hidden = 0;    // of that, while backward was still computing
  double exposed = 0;   // what the step waited for after backward
  double hideable = 0;  // what would have been, had each bucket left at once when it was complete
                        // and the network was free
};

// `sent` in the order they left; `computed`: when backward ended.
ReduceTimes reduce_times(const std::vector<BucketTimes>& sent, CommClock::time_point computed);

// Equal buckets of about `wanted` elements rather than full ones and a rest: a small last one would
// leave the link idle.
size_t even_bucket(size_t elements, size_t wanted);

class BucketReducer {
 public:
  // All buckets have about `bucket` elements. All that is given must outlive it; `unsent` is as in
  // Group::all_reduce.
  BucketReducer(Group& group, std::span<float> gradient, size_t bucket, Wire wire,
                std::span<float> unsent = {});

  // A step begins: nothing of the gradient is complete.
  void begin();
  // From now on the first `elements` do not change any more. Never less than before.
  void ready(size_t elements);
  // All of it is complete. Returns when it is summed, or why that cannot be.
  CommStatus finish();

  // Of the last step that was finished.
  const std::vector<BucketTimes>& buckets() const { return buckets_; }
  ReduceTimes times() const { return reduce_times(buckets_, computed_); }

 private:
  Group& group_;
  std::span<float> gradient_;
  std::span<float> unsent_;
  size_t bucket_;
  Wire wire_;
  size_t sent_ = 0;
  std::vector<Pending> pending_;
  std::vector<BucketTimes> buckets_;
  CommClock::time_point computed_;  // finish() was called
};

}  // namespace reigen
