#include "dist/compress/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.h"
#include "dist/group/block_format.h"

namespace reigen {
namespace {

constexpr size_t kBlock = kBlockValues / 2;  // of pairs: a rank's chunk is whole blocks of floats

// The upper half of a float without its sign rises with its size.
uint32_t size_class(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU) >> 16; }

}  // namespace

size_t TopK::entries(size_t elements, double fraction) {
  const auto wanted = static_cast<size_t>(std::ceil(fraction * static_cast<double>(elements)));
  return std::min((wanted + kBlock - 1) / kBlock * kBlock, elements / kBlock * kBlock);
}

TopK::TopK(Group& group, const Device&, size_t elements, double fraction)
    : group_(group), error_(elements), entries_(entries(elements, fraction)) {
  pairs_.resize(2 * entries_ * static_cast<size_t>(group.size()));
}

// Exactly so many: all of the classes above a limit, and the first ones of the class at it.
void TopK::select() {
  std::vector<size_t> count(1 << 15);
  for (size_t i = 0; i < error_.size(); ++i) {
    error_[i] += gradient_[i];
    ++count[size_class(error_[i])];
  }
  size_t limit = count.size();
  size_t above = 0;
  while (limit > 0 && above + count[limit - 1] <= entries_) above += count[--limit];
  size_t at_limit = entries_ - above;
  float* indices = pairs_.data() + 2 * entries_ * static_cast<size_t>(group_.rank());
  float* values = indices + entries_;
  size_t taken = 0;
  for (size_t i = 0; i < error_.size() && taken < entries_; ++i) {
    const uint32_t size = size_class(error_[i]);
    if (size < limit) {
      if (size + 1 != limit || at_limit == 0) continue;
      --at_limit;
    }
    indices[taken] = std::bit_cast<float>(static_cast<uint32_t>(i));
    values[taken++] = error_[i];
    error_[i] = 0;
  }
}

void TopK::merge() {
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  bool finite = true;
  for (size_t rank = 0; rank < static_cast<size_t>(group_.size()); ++rank) {
    const float* indices = pairs_.data() + 2 * entries_ * rank;
    const float* values = indices + entries_;
    for (size_t i = 0; i < entries_; ++i) {
      gradient_[std::bit_cast<uint32_t>(indices[i])] += values[i];
      finite = finite && std::isfinite(values[i]);
    }
  }
  // What is not finite is the largest, so it was sent; all skip the step and begin anew.
  if (!finite) std::fill(error_.begin(), error_.end(), 0.0F);
}

CommStatus TopK::finish() {
  computed_ = CommClock::now();
  Stopwatch watch;
  select();
  compute_ = watch.lap();
  const Pending sent = group_.all_gather(pairs_);
  CommStatus status = sent.wait();
  const OpTimes times = sent.times();
  sent_ = {{.ready = times.started, .begin = times.begin, .end = times.end}};
  watch.lap();
  if (status.ok()) merge();
  compute_ += watch.lap();
  return status;
}

}  // namespace reigen
