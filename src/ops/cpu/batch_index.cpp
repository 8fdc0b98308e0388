#include "ops/batch_index.h"

#include <vector>

#include "ops/gpu_ops.h"

namespace reigen {
namespace {

struct HostIndex : BatchIndex {
  std::vector<uint32_t> places[2];
  std::vector<uint64_t> numbers[2];

  void fill(const TokenLists& lists, int side, SideIndex& out) {
    places[side].resize(lists.ids.size());
    numbers[side].resize(lists.first_numbers.empty() ? 0 : lists.ids.size());
    for (size_t s = 0; s + 1 < lists.offsets.size(); ++s) {
      for (uint32_t t = lists.offsets[s]; t < lists.offsets[s + 1]; ++t) {
        places[side][t] = t - lists.offsets[s];
        if (!numbers[side].empty()) numbers[side][t] = lists.first_numbers[s] + places[side][t];
      }
    }
    out.rows = static_cast<int64_t>(lists.ids.size());
    out.ids = lists.ids;
    out.offsets = lists.offsets;
    out.places = places[side];
    out.numbers = numbers[side].data();
  }
};

}  // namespace

std::unique_ptr<BatchIndex> index_batch(const Device& device, const BatchTokens& tokens,
                                        const IndexShape& shape) {
  if (GpuOps* gpu = device.gpu()) return gpu->index_batch(tokens, shape);
  auto index = std::make_unique<HostIndex>();
  index->fill(tokens.source, 0, index->source);
  index->fill(tokens.target, 1, index->target);
  index->targets = tokens.targets;
  return index;
}

void use_batch(const Device& device, const BatchIndex& index) {
  if (GpuOps* gpu = device.gpu()) gpu->use_batch(index);
}

StagedLists::StagedLists(const Device& device,
                         std::initializer_list<std::span<const uint32_t>> lists)
    : lists_(lists) {
  GpuOps* gpu = device.gpu();
  if (gpu == nullptr) return;
  const std::vector<const uint32_t*> staged = gpu->stage(lists);
  for (size_t i = 0; i < lists_.size(); ++i) lists_[i] = {staged[i], lists_[i].size()};
}

}  // namespace reigen
