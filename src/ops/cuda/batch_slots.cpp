#include "ops/cuda/batch_slots.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/attention_layout.h"
#include "ops/cuda/embed.h"

namespace reigen::cuda {
namespace {

// Rounded up by less than 2%, so that products have few different shapes.
int64_t rounded_rows(size_t tokens) {
  int64_t unit = 32;
  while (unit < 128 && unit * 128 <= static_cast<int64_t>(tokens)) unit *= 2;
  return (static_cast<int64_t>(tokens) + unit - 1) / unit * unit;
}

// The arrays of one side.
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
    if (numbers.empty()) return;  // no gradient without numbers
    by_id = schedule_embed_backward(ids);
    if (!learned_positions) return;
    std::vector<uint32_t> keys = places;
    std::fill(keys.begin() + static_cast<ptrdiff_t>(lists.ids.size()), keys.end(), kNoToken);
    by_place = schedule_embed_backward(keys);
  }
};

template <class T>
std::span<const T> view(const std::vector<T>& values) {
  return values;
}

// The list, padded to `length` with zeros: empty work.
template <class T>
const T* add_filled(Slot& slot, const std::vector<T>& values, size_t length) {
  std::vector<T> whole = values;
  whole.resize(length);
  return slot.add(view(whole));
}

}  // namespace

// Lengths of the lists that vary between batches of equal rows, and the two other varying numbers.
struct BatchSlots::Lengths {
  uint64_t layout = 0;
  struct Embed {
    size_t segments = 0;
    size_t sums = 0;
    size_t slots = 0;
  };
  struct Attention {
    size_t forward = 0;
    size_t backward = 0;
    size_t shared_bytes = 0;
  };
  Embed embed[4];  // source by piece and by place, target by piece and by place
  Attention attention[3];

  // Calls f(own number, other's number) for each number.
  template <class F>
  void with(const Lengths& other, F f) {
    for (int i = 0; i < 4; ++i) {
      f(embed[i].segments, other.embed[i].segments);
      f(embed[i].sums, other.embed[i].sums);
      f(embed[i].slots, other.embed[i].slots);
    }
    for (int i = 0; i < 3; ++i) {
      f(attention[i].forward, other.attention[i].forward);
      f(attention[i].backward, other.attention[i].backward);
      f(attention[i].shared_bytes, other.attention[i].shared_bytes);
    }
  }

  size_t bytes() const {
    size_t sum = 0;
    for (const Embed& e : embed) {
      sum += Slot::room(e.segments * sizeof(EmbedSegment)) + Slot::room(e.sums * sizeof(EmbedSum));
    }
    for (const Attention& a : attention) {
      sum += Slot::room(a.forward * sizeof(AttentionWork)) +
             Slot::room(a.backward * sizeof(AttentionWork));
    }
    return sum;
  }
};

namespace {

constexpr int64_t kMostSharedRows = 65'536;  // larger batches vary too much to share a layout often

}  // namespace

BatchSlots::BatchSlots(cudaStream_t compute) : compute_(compute) {}
BatchSlots::~BatchSlots() = default;

// Lengths that batches of these rows share: the longest so far, plus a quarter.
BatchSlots::Lengths BatchSlots::filled_up(int64_t source_rows, int64_t target_rows,
                                          const Lengths& needed, size_t most_shared) {
  if (target_rows == 0 || source_rows + target_rows > kMostSharedRows) return needed;
  std::lock_guard lock(mutex_);
  auto& known = shared_[{source_rows, target_rows}];
  if (!known) known = std::make_unique<Lengths>();
  bool fits = known->layout != 0;
  known->with(needed, [&](size_t have, size_t want) { fits = fits && want <= have; });
  if (fits) return *known;
  constexpr size_t kUnit = 64;
  known->with(needed, [&](size_t& have, size_t want) {
    if (want > 0) have = std::max(have, (want + want / 4 + kUnit - 1) / kUnit * kUnit);
  });
  for (auto& a : known->attention) a.shared_bytes = std::min(a.shared_bytes, most_shared);
  known->layout = ++layouts_;
  return *known;
}

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
  std::unique_ptr<Slot> slot;  // null for an index in memory of its own
  DeviceMemory own;
  std::vector<uint32_t> offsets[2];
  EmbedPlans embed[2];
  AttentionPlan attention[3];
  uint64_t layout = 0;

  Index() = default;
  ~Index() override {
    if (slot) slots->give_back(std::move(slot));
  }
  void connect() {
    source.offsets = offsets[0];
    target.offsets = offsets[1];
    source.embed_plan = &embed[0];
    target.embed_plan = &embed[1];
    self = &attention[0];
    causal = &attention[1];
    cross = &attention[2];
  }

  // Shifts every device address by `bytes`.
  void shift(ptrdiff_t bytes) {
    auto move = [bytes](auto*& pointer) {
      using Pointer = std::remove_reference_t<decltype(pointer)>;
      pointer = reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(pointer) +
                                          static_cast<uintptr_t>(bytes));
    };
    auto move_span = [&](std::span<const uint32_t>& span) {
      const uint32_t* data = span.data();
      move(data);
      span = {data, span.size()};
    };
    for (SideIndex* side : {&source, &target}) {
      move_span(side->ids);
      move_span(side->places);
      move(side->numbers);
    }
    move_span(targets);
    for (EmbedPlans& plans : embed) {
      for (EmbedPlan* plan : {&plans.by_id, &plans.by_place}) {
        move(plan->order);
        move(plan->segments);
        move(plan->sums);
      }
    }
    for (AttentionPlan& plan : attention) {
      move(plan.forward);
      move(plan.backward);
    }
  }
};

std::unique_ptr<Slot> BatchSlots::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Slot>();
  auto slot = std::move(free_.front());  // the one unused for longest
  free_.erase(free_.begin());
  return slot;
}

void BatchSlots::give_back(std::unique_ptr<Slot> slot) {
  try {
    slot->release(compute_);
  } catch (const std::exception&) {
    return;  // the GPU has failed; the next operation reports it
  }
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(slot));
}

namespace {

EmbedPlan planned(Slot& slot, const EmbedSchedule& s, size_t tokens, size_t segments, size_t sums,
                  size_t slots) {
  return {add_filled(slot, s.order, s.order.empty() ? 0 : tokens),
          add_filled(slot, s.segments, segments),
          add_filled(slot, s.sums, sums),
          static_cast<uint32_t>(segments),
          static_cast<uint32_t>(sums),
          static_cast<uint32_t>(slots)};
}

// Rows past the last sentence are cleared by blocks of the attention kernels: a separate call would
// cost as much as a small kernel, 72 times a step. They are first in the list, so that no other
// block ends later because of them.
void add_clearing(AttentionSchedule& schedule, int64_t query_rows, int64_t key_rows) {
  constexpr uint32_t kRows = 16;  // of a block
  std::vector<AttentionWork> forward;
  std::vector<AttentionWork> backward;
  for (uint32_t row = schedule.query_tokens; row < query_rows; row += kRows) {
    AttentionWork work{};
    work.first_query = row;
    work.queries = std::min(kRows, static_cast<uint32_t>(query_rows) - row);
    forward.push_back(work);
    backward.push_back(work);
  }
  for (uint32_t row = schedule.key_tokens; row < key_rows; row += kRows) {
    AttentionWork work{};
    work.first_key = row;
    work.keys = std::min(kRows, static_cast<uint32_t>(key_rows) - row);
    backward.push_back(work);
  }
  schedule.forward.insert(schedule.forward.begin(), forward.begin(), forward.end());
  schedule.backward.insert(schedule.backward.begin(), backward.begin(), backward.end());
}

}  // namespace

std::unique_ptr<BatchIndex> BatchSlots::index(const BatchTokens& tokens, const IndexShape& shape) {
  const bool both = !tokens.target.ids.empty();
  const SideArrays sides[2] = {{tokens.source, shape.learned_positions},
                               {tokens.target, shape.learned_positions}};
  std::vector<uint32_t> targets(tokens.targets.begin(), tokens.targets.end());
  if (both) targets.resize(static_cast<size_t>(sides[1].rows), kNoToken);
  AttentionSchedule schedules[3];
  auto schedule = [&](const TokenLists& queries, const TokenLists& keys) {
    return schedule_attention(queries.offsets, keys.offsets, shape.heads, shape.head_width,
                              shape.dtype);
  };
  schedules[0] = schedule(tokens.source, tokens.source);
  if (both) {
    schedules[1] = schedule(tokens.target, tokens.target);
    schedules[2] = schedule(tokens.target, tokens.source);
  }

  const int64_t queries[3] = {sides[0].rows, sides[1].rows, sides[1].rows};
  const int64_t keys[3] = {sides[0].rows, sides[1].rows, sides[0].rows};
  for (int i = 0; i < (both ? 3 : 1); ++i) add_clearing(schedules[i], queries[i], keys[i]);

  const EmbedSchedule* embeds[4] = {&sides[0].by_id, &sides[0].by_place, &sides[1].by_id,
                                    &sides[1].by_place};
  Lengths needed;
  for (int i = 0; i < 4; ++i) {
    needed.embed[i] = {embeds[i]->segments.size(), embeds[i]->sums.size(), embeds[i]->slots};
  }
  for (int i = 0; i < 3; ++i) {
    needed.attention[i] = {schedules[i].forward.size(), schedules[i].backward.size(),
                           schedules[i].shared_bytes};
  }
  const Lengths lengths =
      filled_up(sides[0].rows, sides[1].rows, needed, attention_shared_bytes(shape.head_width));

  auto index = std::make_unique<Index>();
  index->slots = this;
  index->slot = take();
  index->layout = lengths.layout;
  Slot& slot = *index->slot;
  const auto rows = static_cast<size_t>(sides[0].rows + sides[1].rows);
  // Ids, places, targets, two orders and numbers, each rounded up.
  slot.prepare(lengths.bytes() + rows * (5 * sizeof(uint32_t) + sizeof(uint64_t)) +
               16 * Slot::room(1));
  const TokenLists* lists[2] = {&tokens.source, &tokens.target};
  SideIndex* out[2] = {&index->source, &index->target};
  for (int side = 0; side < 2; ++side) {
    const SideArrays& arrays = sides[side];
    index->offsets[side].assign(lists[side]->offsets.begin(), lists[side]->offsets.end());
    out[side]->rows = arrays.rows;
    out[side]->ids = {slot.add(view(arrays.ids)), arrays.ids.size()};
    out[side]->places = {slot.add(view(arrays.places)), arrays.places.size()};
    out[side]->numbers = slot.add(view(arrays.numbers));
    auto plan = [&](int i) {
      const Lengths::Embed& l = lengths.embed[i];
      return planned(slot, *embeds[i], static_cast<size_t>(arrays.rows), l.segments, l.sums,
                     l.slots);
    };
    index->embed[side] = {{}, plan(2 * side), plan(2 * side + 1)};
  }
  index->targets = {slot.add(view(targets)), targets.size()};
  for (int i = 0; i < 3; ++i) {
    const Lengths::Attention& l = lengths.attention[i];
    AttentionPlan& plan = index->attention[i];
    plan = plan_of(schedules[i], add_filled(slot, schedules[i].forward, l.forward),
                   add_filled(slot, schedules[i].backward, l.backward));
    plan.forward_blocks = static_cast<uint32_t>(l.forward);
    plan.backward_blocks = static_cast<uint32_t>(l.backward);
    // The shared layout may stem from batches with wider heads.
    plan.shared_bytes =
        std::min(static_cast<uint32_t>(l.shared_bytes), attention_shared_bytes(shape.head_width));
    plan.query_tokens = static_cast<uint32_t>(queries[i]);
    plan.clear_queries_from = static_cast<uint32_t>(queries[i]);
    plan.clear_keys_from = static_cast<uint32_t>(keys[i]);
  }
  index->connect();
  slot.send(input_.get());
  return index;
}

uint64_t BatchSlots::layout_of(const BatchIndex& index) {
  return static_cast<const Index&>(index).layout;
}

std::unique_ptr<BatchIndex> BatchSlots::fixed_like(const BatchIndex& batch) {
  const auto& like = static_cast<const Index&>(batch);
  auto index = std::make_unique<Index>();
  static_cast<BatchIndex&>(*index) = like;
  for (int i = 0; i < 2; ++i) {
    index->offsets[i] = like.offsets[i];
    index->embed[i] = like.embed[i];
  }
  for (int i = 0; i < 3; ++i) index->attention[i] = like.attention[i];
  index->layout = like.layout;
  index->own = DeviceMemory(like.slot->used(), "a recorded batch");
  index->connect();
  index->shift(index->own.as<std::byte>() - like.slot->device());
  return index;
}

void BatchSlots::load(const BatchIndex& batch, const BatchIndex& fixed) const {
  const Slot& slot = *static_cast<const Index&>(batch).slot;
  slot.use(compute_);
  check(cudaMemcpyAsync(static_cast<const Index&>(fixed).own.get(), slot.device(), slot.used(),
                        cudaMemcpyDeviceToDevice, compute_),
        "copy a batch on the GPU");
}

void BatchSlots::use(const BatchIndex& index) const {
  const auto& own = static_cast<const Index&>(index);
  if (own.slot) own.slot->use(compute_);
}

std::vector<const uint32_t*> BatchSlots::stage(std::span<const std::span<const uint32_t>> lists) {
  Slot& slot = lists_[turn_++ % 2];
  lists_[turn_ % 2].release(compute_);  // the previous call's: read by the work enqueued so far
  size_t bytes = 0;
  for (const auto& list : lists) bytes += Slot::room(list.size_bytes());
  slot.prepare(bytes);
  std::vector<const uint32_t*> out;
  for (const auto& list : lists) out.push_back(slot.add(list));
  slot.send(compute_);
  return out;
}

}  // namespace reigen::cuda
