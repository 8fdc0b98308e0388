#include "dist/compress/bucket_reducer.h"

#include <algorithm>

#include "dist/group/block_format.h"

namespace reigen {
namespace {

double seconds(CommClock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

size_t even_bucket(size_t elements, size_t wanted) {
  const size_t buckets = std::max<size_t>(1, (elements + wanted / 2) / std::max<size_t>(1, wanted));
  const size_t even = (elements + buckets - 1) / buckets;
  return std::max(kBlockValues, (even + kBlockValues - 1) / kBlockValues * kBlockValues);
}

ReduceTimes reduce_times(const std::vector<BucketTimes>& sent, CommClock::time_point computed) {
  ReduceTimes sum;
  if (sent.empty()) return sum;
  auto before_end = [computed](CommClock::time_point begin, CommClock::time_point end) {
    return std::max(0.0, seconds(std::min(end, computed) - begin));
  };
  CommClock::time_point free = sent[0].ready;  // when the network could take the next one
  for (const BucketTimes& bucket : sent) {
    const auto whole = bucket.end - bucket.begin;
    sum.busy += seconds(whole);
    sum.hidden += before_end(bucket.begin, bucket.end);
    const auto begin = std::max(bucket.ready, free);
    free = begin + whole;
    sum.hideable += before_end(begin, free);
  }
  sum.exposed = std::max(0.0, seconds(sent.back().end - computed));
  return sum;
}

BucketReducer::BucketReducer(Group& group, std::span<float> gradient, size_t bucket, Wire wire,
                             std::span<float> unsent)
    : group_(group),
      gradient_(gradient),
      unsent_(unsent),
      bucket_(even_bucket(gradient.size(), bucket)),
      wire_(wire) {}

void BucketReducer::begin() {
  sent_ = 0;
  pending_.clear();
  buckets_.clear();
}

void BucketReducer::ready(size_t elements) {
  elements = std::min(elements, gradient_.size());
  while (sent_ < elements) {
    const size_t size = std::min(bucket_, gradient_.size() - sent_);
    if (sent_ + size > elements) return;
    const auto unsent = unsent_.empty() ? unsent_ : unsent_.subspan(sent_, size);
    pending_.push_back(group_.all_reduce(gradient_.subspan(sent_, size), wire_, unsent));
    buckets_.push_back({.elements = size});
    sent_ += size;
  }
}

CommStatus BucketReducer::finish() {
  computed_ = CommClock::now();
  ready(gradient_.size());
  CommStatus status;
  for (size_t i = 0; i < pending_.size(); ++i) {
    // All are waited for even after a failure: they use the gradient until they have ended.
    CommStatus ended = pending_[i].wait();
    if (status.ok()) status = std::move(ended);
    const OpTimes times = pending_[i].times();
    buckets_[i].ready = times.started;
    buckets_[i].begin = times.begin;
    buckets_[i].end = times.end;
  }
  pending_.clear();
  return status;
}

}  // namespace reigen
