#include "ops/cpu/partial_sums.h"

#include "ops/cpu/kernels.h"

namespace reigen::cpu {

PartialSums::PartialSums(int parts, std::vector<Tensor> targets) : targets_(std::move(targets)) {
  constexpr size_t kLine = 16;  // floats; parts must not share a cache line
  for (const auto& target : targets_) {
    offsets_.push_back(width_);
    width_ += (static_cast<size_t>(target.cols) + kLine - 1) / kLine * kLine;
  }
  sums_.resize(width_ * static_cast<size_t>(parts));
}

float* PartialSums::row(int part, size_t target) {
  if (targets_[target].empty()) return nullptr;
  return sums_.data() + static_cast<size_t>(part) * width_ + offsets_[target];
}

void PartialSums::add_to_targets() const {
  for (size_t base = 0; base < sums_.size(); base += width_) {
    for (size_t t = 0; t < targets_.size(); ++t) {
      if (targets_[t].empty()) continue;
      add_row(sums_.data() + base + offsets_[t], targets_[t].row(0),
              static_cast<size_t>(targets_[t].cols));
    }
  }
}

}  // namespace reigen::cpu
