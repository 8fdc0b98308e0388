#include "dist/compress/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.h"
#include "dist/group/block_format.h"

namespace reigen {
namespace {

constexpr size_t kBlock = kBlockValues / 2;  // pairs: chunk_of() cuts whole blocks of floats

// The upper bits without the sign order floats by magnitude.
uint32_t size_class(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU) >> 16; }

}  // namespace

size_t TopK::entries(size_t elements, double fraction) {
  const auto wanted = static_cast<size_t>(std::ceil(fraction * static_cast<double>(elements)));
  return std::min((wanted + kBlock - 1) / kBlock * kBlock, elements / kBlock * kBlock);
}

TopK::TopK(Group& group, size_t elements, const CompressorPlan& plan)
    : residual_(std::make_shared<Residual>(elements, plan.repeatable)),
      entries_(entries(elements, plan.setting.fraction)) {
  use(group);
}

void TopK::use(Group& group) {
  group_ = &group;
  pairs_.resize(2 * entries_ * static_cast<size_t>(group.size()));
}

// Selects exactly entries_ elements: all of the size classes above a limit, and the first ones of
// the class at the limit.
void TopK::select() {
  const std::span<const float> last = residual_->last();
  const std::span<float> next = residual_->next();
  std::vector<size_t> count(1 << 15);
  for (size_t i = 0; i < next.size(); ++i) {
    next[i] = last[i] + gradient_[i];
    ++count[size_class(next[i])];
  }
  size_t limit = count.size();
  size_t above = 0;
  while (limit > 0 && above + count[limit - 1] <= entries_) above += count[--limit];
  size_t at_limit = entries_ - above;
  float* indices = pairs_.data() + 2 * entries_ * static_cast<size_t>(group_->rank());
  float* values = indices + entries_;
  size_t taken = 0;
  for (size_t i = 0; i < next.size() && taken < entries_; ++i) {
    const uint32_t size = size_class(next[i]);
    if (size < limit) {
      if (size + 1 != limit || at_limit == 0) continue;
      --at_limit;
    }
    indices[taken] = std::bit_cast<float>(static_cast<uint32_t>(i));
    values[taken++] = next[i];
    next[i] = 0;
  }
}

void TopK::merge() {
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  bool finite = true;
  for (size_t rank = 0; rank < static_cast<size_t>(group_->size()); ++rank) {
    const float* indices = pairs_.data() + 2 * entries_ * rank;
    const float* values = indices + entries_;
    for (size_t i = 0; i < entries_; ++i) {
      gradient_[std::bit_cast<uint32_t>(indices[i])] += values[i];
      finite = finite && std::isfinite(values[i]);
    }
  }
  // Non-finite elements are the largest, so they were sent; all ranks skip the step and start
  // afresh.
  if (!finite) std::ranges::fill(residual_->next(), 0.0F);
}

CommStatus TopK::finish() {
  computed_ = CommClock::now();
  Stopwatch watch;
  select();
  compute_ = watch.lap();
  const Pending sent = group_->all_gather(pairs_);
  CommStatus status = sent.wait();
  sent_ = {sent.times()};
  watch.lap();
  if (status.ok()) merge();
  compute_ += watch.lap();
  return status;
}

}  // namespace reigen
