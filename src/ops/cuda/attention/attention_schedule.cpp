// Divides sentences and heads among the blocks of attention. Long sentences come first, so that
// none runs alone at the end.
#include <algorithm>
#include <numeric>

#include "ops/cuda/attention/attention_layout.h"

namespace reigen::cuda {
namespace {

constexpr uint32_t kWarps = kAttentionWarps;

// Heads that share a block, so that its four warps have equal shares of `tiles` items per head.
template <class F>
uint32_t join_heads(uint32_t tiles, uint32_t heads, F fits) {
  uint32_t joined = 1;
  while (joined < kWarps && heads % (2 * joined) == 0 && joined * tiles % kWarps != 0 &&
         fits(2 * joined)) {
    joined *= 2;
  }
  return joined;
}

// Adds blocks for some heads of a sentence. Up to four items a warp pay for a block's start; a long
// sentence is cut finer, or it would still be running when all others are done.
void divide(std::vector<AttentionWork>& list, AttentionWork work, uint32_t tiles) {
  const uint32_t most = (tiles > kWarps ? 2 : 4) * kWarps;
  const uint32_t items = work.heads * tiles;
  for (uint32_t item = 0; item < items; item += most) {
    work.first_item = item;
    work.last_item = std::min(item + most, items);
    list.push_back(work);
  }
}

// Adds blocks of backward for one head of a sentence that does not fit shared memory: each owns
// some tiles of queries or of keys. Queries' are numbered first.
void divide_long(std::vector<AttentionWork>& list, AttentionWork work, uint32_t query_tiles,
                 uint32_t key_tiles) {
  auto add = [&](uint32_t first, uint32_t end) {
    for (uint32_t item = first; item < end; item += kLongTiles) {
      work.first_item = item;
      work.last_item = std::min(item + kLongTiles, end);
      list.push_back(work);
    }
  };
  add(query_tiles, query_tiles + key_tiles);
  add(0, query_tiles);
}

// Shared memory of a block of a long sentence, which owns queries or keys.
uint32_t long_block_bytes(uint32_t width) {
  const uint32_t chunk = chunk_tiles(kernel_architecture());
  return std::max(BlockLayout(1, kLongTiles, chunk, width).without_tiles(),
                  BlockLayout(1, chunk, kLongTiles, width).without_tiles());
}

}  // namespace

AttentionSchedule schedule_attention(std::span<const uint32_t> query_offsets,
                                     std::span<const uint32_t> key_offsets, int heads,
                                     int64_t head_width, DType dtype) {
  AttentionSchedule schedule;
  schedule.tiles = attention_in_tiles(dtype, head_width);
  schedule.query_tokens = query_offsets.back();
  schedule.key_tokens = key_offsets.back();
  const uint32_t most_bytes = attention_shared_bytes(head_width);
  const uint32_t long_bytes = long_block_bytes(static_cast<uint32_t>(head_width));
  std::vector<uint32_t> order(query_offsets.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  auto length = [](std::span<const uint32_t> o, uint32_t s) { return o[s + 1] - o[s]; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return length(query_offsets, a) + length(key_offsets, a) >
           length(query_offsets, b) + length(key_offsets, b);
  });
  for (uint32_t s : order) {
    AttentionWork work{};
    work.first_query = query_offsets[s];
    work.first_key = key_offsets[s];
    work.queries = length(query_offsets, s);
    work.keys = length(key_offsets, s);
    if (work.queries == 0 || work.keys == 0) continue;
    const uint32_t query_tiles = (work.queries + 15) / 16;
    const uint32_t key_tiles = (work.keys + 15) / 16;
    const auto all = static_cast<uint32_t>(heads);
    auto bytes = [&](uint32_t joined) {
      return BlockLayout(joined, query_tiles, key_tiles, static_cast<uint32_t>(head_width)).all();
    };
    work.heads = join_heads(query_tiles, all, [](uint32_t) { return true; });
    for (work.head = 0; work.head < all; work.head += work.heads) {
      divide(schedule.forward, work, query_tiles);
    }
    if (!schedule.tiles || bytes(1) > most_bytes) {
      work.heads = 1;
      for (work.head = 0; work.head < all; ++work.head) {
        if (schedule.tiles) {
          divide_long(schedule.backward, work, query_tiles, key_tiles);
        } else {
          divide(schedule.backward, work, query_tiles + key_tiles);
        }
      }
      schedule.shared_bytes = std::max(schedule.shared_bytes, schedule.tiles ? long_bytes : 0);
      continue;
    }
    work.heads = join_heads(key_tiles, all, [&](uint32_t n) { return bytes(n) <= most_bytes; });
    work.first_item = work.last_item = 0;
    for (work.head = 0; work.head < all; work.head += work.heads) schedule.backward.push_back(work);
    schedule.shared_bytes = std::max(schedule.shared_bytes, bytes(work.heads));
  }
  return schedule;
}

AttentionPlan plan_of(const AttentionSchedule& schedule, const AttentionWork* forward,
                      const AttentionWork* backward) {
  AttentionPlan plan;
  plan.tiles = schedule.tiles;
  plan.forward = forward;
  plan.backward = backward;
  plan.forward_blocks = static_cast<uint32_t>(schedule.forward.size());
  plan.backward_blocks = static_cast<uint32_t>(schedule.backward.size());
  plan.shared_bytes = schedule.shared_bytes;
  plan.query_tokens = schedule.query_tokens;
  plan.clear_queries_from = schedule.query_tokens;
  plan.clear_keys_from = schedule.key_tokens;
  return plan;
}

}  // namespace reigen::cuda
