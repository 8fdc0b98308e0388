#include "ops/batch_index.h"

namespace reigen {

StagedLists::StagedLists(const Device& device,
                         std::initializer_list<std::span<const uint32_t>> lists)
    : lists_(lists) {
  const std::vector<const uint32_t*> staged = stage_lists(device, lists_);
  for (size_t i = 0; i < lists_.size(); ++i) lists_[i] = {staged[i], lists_[i].size()};
}

}  // namespace reigen
