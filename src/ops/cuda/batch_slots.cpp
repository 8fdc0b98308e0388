#include "ops/cuda/batch_slots.h"

#include <algorithm>
#include <cstring>

#include "ops/cuda/attention.h"
#include "ops/cuda/embed.h"

namespace reigen::cuda {
namespace {

// Rounded up by less than 2%, so that few shapes of products are met.
int64_t rounded_rows(size_t tokens) {
  int64_t unit = 32;
  while (unit < 256 && unit * 128 <= static_cast<int64_t>(tokens)) unit *= 2;
  return (static_cast<int64_t>(tokens) + unit - 1) / unit * unit;
}

// One side as it will be copied.
struct SideArrays {
  int64_t rows = 0;
  std::vector<uint32_t> ids;
  std::vector<uint32_t> places;
  std::vector<uint64_t> numbers;
  EmbedSchedule by_id;
  EmbedSchedule by_place;

  SideArrays(const TokenLists& lists, bool learned_positions)
      : rows(rounded_rows(lists.ids.size())) {
    const auto count = static_cast<size_t>(rows);
    ids.assign(lists.ids.begin(), lists.ids.end());
    ids.resize(count, kNoToken);
    places.resize(count);
    if (!lists.first_numbers.empty()) numbers.resize(count);
    for (size_t s = 0; s + 1 < lists.offsets.size(); ++s) {
      for (uint32_t t = lists.offsets[s]; t < lists.offsets[s + 1]; ++t) {
        places[t] = t - lists.offsets[s];
        if (!numbers.empty()) numbers[t] = lists.first_numbers[s] + places[t];
      }
    }
    if (numbers.empty()) return;  // nothing is learned from it
    by_id = schedule_embed_backward(ids);
    if (!learned_positions) return;
    std::vector<uint32_t> keys = places;
    std::fill(keys.begin() + static_cast<ptrdiff_t>(lists.ids.size()), keys.end(), kNoToken);
    by_place = schedule_embed_backward(keys);
  }

  static size_t bytes_of(const EmbedSchedule& s) {
    return Slot::room(s.order.size() * sizeof(uint32_t)) +
           Slot::room(s.segments.size() * sizeof(EmbedSegment)) +
           Slot::room(s.sums.size() * sizeof(EmbedSum));
  }
  size_t bytes() const {
    return 2 * Slot::room(ids.size() * sizeof(uint32_t)) +
           Slot::room(numbers.size() * sizeof(uint64_t)) + bytes_of(by_id) + bytes_of(by_place);
  }
};

template <class T>
std::span<const T> view(const std::vector<T>& values) {
  return values;
}

EmbedPlan planned(Slot& slot, const EmbedSchedule& s) {
  return {slot.add(view(s.order)),
          slot.add(view(s.segments)),
          slot.add(view(s.sums)),
          static_cast<uint32_t>(s.segments.size()),
          static_cast<uint32_t>(s.sums.size()),
          s.slots};
}

size_t bytes_of(const AttentionSchedule& s) {
  return Slot::room(s.forward.size() * sizeof(AttentionWork)) +
         Slot::room(s.backward.size() * sizeof(AttentionWork));
}

AttentionPlan planned(Slot& slot, const AttentionSchedule& s) {
  return plan_of(s, slot.add(view(s.forward)), slot.add(view(s.backward)));
}

}  // namespace

void Slot::prepare(size_t bytes) {
  if (reading_) read_.wait();
  reading_ = false;
  used_ = 0;
  if (pinned_.size() >= bytes) return;
  const size_t size = bytes + bytes / 4;
  pinned_ = PinnedMemory(size, "a batch");
  device_ = DeviceMemory(size, "a batch");
}

const void* Slot::add_bytes(const void* data, size_t bytes) {
  const std::byte* at = device_.as<std::byte>() + used_;
  if (bytes > 0) std::memcpy(pinned_.as<std::byte>() + used_, data, bytes);
  used_ += room(bytes);
  return at;
}

void Slot::send(cudaStream_t stream) {
  copy_to_device(device_.get(), pinned_.as<void>(), used_, stream);
  sent_.record(stream);
}

void Slot::release(cudaStream_t stream) {
  read_.record(stream);
  reading_ = true;
}

struct BatchSlots::Index : BatchIndex {
  BatchSlots* slots = nullptr;
  std::unique_ptr<Slot> slot;
  std::vector<uint32_t> offsets[2];
  EmbedPlans embed[2];
  AttentionPlan attention[3];
  ~Index() override {
    if (slot) slots->give_back(std::move(slot));
  }
};

std::unique_ptr<Slot> BatchSlots::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Slot>();
  auto slot = std::move(free_.front());  // the one that has waited longest
  free_.erase(free_.begin());
  return slot;
}

void BatchSlots::give_back(std::unique_ptr<Slot> slot) {
  try {
    slot->release(compute_);
  } catch (const std::exception&) {
    return;  // the GPU has failed, which the next operation will say
  }
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(slot));
}

std::unique_ptr<BatchIndex> BatchSlots::index(const BatchTokens& tokens, const IndexShape& shape) {
  const bool both = !tokens.target.ids.empty();
  const SideArrays source(tokens.source, shape.learned_positions);
  const SideArrays target(tokens.target, shape.learned_positions);
  std::vector<uint32_t> targets(tokens.targets.begin(), tokens.targets.end());
  if (both) targets.resize(static_cast<size_t>(target.rows), kNoToken);
  auto schedule = [&](const TokenLists& queries, const TokenLists& keys) {
    return schedule_attention(queries.offsets, keys.offsets, shape.heads, shape.head_width,
                              shape.dtype);
  };
  const AttentionSchedule self = schedule(tokens.source, tokens.source);
  AttentionSchedule causal;
  AttentionSchedule cross;
  if (both) {
    causal = schedule(tokens.target, tokens.target);
    cross = schedule(tokens.target, tokens.source);
  }
  auto index = std::make_unique<Index>();
  index->slots = this;
  index->slot = take();
  Slot& slot = *index->slot;
  slot.prepare(source.bytes() + target.bytes() + Slot::room(targets.size() * sizeof(uint32_t)) +
               bytes_of(self) + bytes_of(causal) + bytes_of(cross));
  auto place = [&](const SideArrays& arrays, const TokenLists& lists, int side, SideIndex& out) {
    index->offsets[side].assign(lists.offsets.begin(), lists.offsets.end());
    out.rows = arrays.rows;
    out.ids = {slot.add(view(arrays.ids)), arrays.ids.size()};
    out.places = {slot.add(view(arrays.places)), arrays.places.size()};
    out.numbers = slot.add(view(arrays.numbers));
    out.offsets = index->offsets[side];
    index->embed[side] = {planned(slot, arrays.by_id), planned(slot, arrays.by_place)};
    out.plans = &index->embed[side];
  };
  place(source, tokens.source, 0, index->source);
  place(target, tokens.target, 1, index->target);
  index->targets = {slot.add(view(targets)), targets.size()};
  index->attention[0] = planned(slot, self);
  index->attention[1] = planned(slot, causal);
  index->attention[2] = planned(slot, cross);
  index->self = &index->attention[0];
  index->causal = &index->attention[1];
  index->cross = &index->attention[2];
  slot.send(input_.get());
  return index;
}

void BatchSlots::use(const BatchIndex& index) const {
  static_cast<const Index&>(index).slot->use(compute_);
}

std::vector<const uint32_t*> BatchSlots::stage(
    std::initializer_list<std::span<const uint32_t>> lists) {
  Slot& slot = lists_[turn_++ % 2];
  lists_[turn_ % 2].release(compute_);  // of the call before: read by what is in line now
  size_t bytes = 0;
  for (const auto& list : lists) bytes += Slot::room(list.size_bytes());
  slot.prepare(bytes);
  std::vector<const uint32_t*> out;
  for (const auto& list : lists) out.push_back(slot.add(list));
  slot.send(compute_);
  return out;
}

}  // namespace reigen::cuda
