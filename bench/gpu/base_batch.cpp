#include "base_batch.h"

#include <algorithm>

namespace reigen::bench {

// As gpu_step.py: log-normal around 28, target 0.8 to 1.3 times the source; the last sentences are
// cut so that both sides have the wanted number of tokens.
Lengths make_lengths(const StepOptions& o) {
  std::mt19937_64 random(o.seed);
  std::lognormal_distribution<double> length(3.15, 0.6);
  std::uniform_real_distribution<double> ratio(0.8, 1.3);
  auto bounded = [](double x) { return static_cast<int64_t>(std::clamp(x, 3.0, 200.0)); };
  std::vector<int64_t> source, target;
  int64_t left = o.source_tokens;
  int64_t sum = 0;
  while (left > 0) {
    const int64_t s = std::min(left, bounded(length(random)));
    source.push_back(s);
    target.push_back(bounded(static_cast<double>(s) * ratio(random)));
    left -= s;
    sum += target.back();
  }
  for (size_t i = 0; sum != o.target_tokens; i = (i + 1) % target.size()) {
    const int64_t change = sum < o.target_tokens ? 1 : target[i] > 3 ? -1 : 0;
    target[i] += change;
    sum += change;
  }
  Lengths out;
  for (size_t i = 0; i < source.size(); ++i) {
    out.source.push_back(out.source.back() + static_cast<uint32_t>(source[i]));
    out.target.push_back(out.target.back() + static_cast<uint32_t>(target[i]));
  }
  return out;
}

AttentionLists::AttentionLists(const Side& queries, const Side& keys, int heads, int64_t head_width,
                               DType dtype) {
  const auto schedule =
      cuda::schedule_attention(queries.offsets, keys.offsets, heads, head_width, dtype);
  forward = GpuArray<cuda::AttentionWork>(schedule.forward);
  backward = GpuArray<cuda::AttentionWork>(schedule.backward);
  plan = cuda::plan_of(schedule, forward.get(), backward.get());
}

std::vector<uint32_t> make_ids(std::mt19937_64& random, size_t count, int64_t pieces,
                               int64_t rows) {
  std::vector<double> weights;
  for (int64_t i = 0; i < pieces; ++i) weights.push_back(1 / (static_cast<double>(i) + 1.5));
  std::discrete_distribution<uint32_t> piece(weights.begin(), weights.end());
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(piece(random));
  ids.resize(static_cast<size_t>(rows), cuda::kNoToken);
  return ids;
}

Side make_side(std::mt19937_64& random, const StepOptions& o, std::vector<uint32_t> offsets) {
  Side side;
  const int64_t count = offsets.back();
  side.rows = (count + o.round_to - 1) / o.round_to * o.round_to;
  const auto ids = make_ids(random, static_cast<size_t>(count), o.pieces, side.rows);
  std::vector<uint32_t> places(ids.size());
  std::vector<uint64_t> tokens(ids.size());
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (uint32_t t = offsets[s]; t < offsets[s + 1]; ++t) places[t] = t - offsets[s];
  }
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = 1000 + t;
  const auto schedule = cuda::schedule_embed_backward(ids);
  side.offsets = std::move(offsets);
  side.ids = GpuArray<uint32_t>(ids);
  side.places = GpuArray<uint32_t>(places);
  side.tokens = GpuArray<uint64_t>(tokens);
  side.order = GpuArray<uint32_t>(schedule.order);
  side.segments = GpuArray<cuda::EmbedSegment>(schedule.segments);
  side.sums = GpuArray<cuda::EmbedSum>(schedule.sums);
  side.embed = {side.order.get(),
                side.segments.get(),
                side.sums.get(),
                static_cast<uint32_t>(side.segments.size()),
                static_cast<uint32_t>(side.sums.size()),
                schedule.slots};
  return side;
}

}  // namespace reigen::bench
