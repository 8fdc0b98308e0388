// ops/batch_index.h on the CPU: host memory is device memory, so lists are used where they are.
#include "ops/batch_index.h"

#include <vector>

#include "ops/cpu/backend.h"

namespace reigen::cpu {
namespace {

// Refers to the caller's lists; only places and numbers are computed.
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

std::unique_ptr<BatchIndex> CpuBackend::index_batch(const Device&, const BatchTokens& tokens,
                                                    const IndexShape&) {
  auto index = std::make_unique<HostIndex>();
  index->fill(tokens.source, 0, index->source);
  index->fill(tokens.target, 1, index->target);
  index->targets = tokens.targets;
  return index;
}

void CpuBackend::use_batch(const Device&, const BatchIndex&) {}

std::vector<const uint32_t*> CpuBackend::stage_lists(
    const Device&, std::span<const std::span<const uint32_t>> lists) {
  std::vector<const uint32_t*> out;
  for (const auto& list : lists) out.push_back(list.data());
  return out;
}

}  // namespace reigen::cpu
