#include "data/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/format.h"

namespace reigen {

BatchStream::BatchStream(const Dataset& dataset, uint64_t seed, BatchSize size)
    : dataset_(dataset), seed_(seed), size_(size), order_(dataset.corpora(), seed, 0) {
  if (dataset.pairs() == 0)
    throw DataError("the dataset has no pairs to make batches of; prepare it again");
  if ((size.target_tokens == 0) == (size.pairs == 0)) {
    throw ConfigError(
        format("the batch size must be a number of target tokens or of pairs, not both; "
               "got {} target tokens and {} pairs",
               size.target_tokens, size.pairs));
  }
}

void BatchStream::seek(Cursor cursor) {
  order_ = EpochOrder(dataset_.corpora(), seed_, cursor.epoch);
  if (cursor.position >= order_.size()) {
    throw DataError(
        format("position {} is past the end of an epoch of {} pairs; this is not the dataset "
               "of the run",
               cursor.position, order_.size()));
  }
  cursor_ = cursor;
}

void BatchStream::advance() {
  if (++cursor_.position == order_.size()) {
    cursor_ = {cursor_.epoch + 1, 0};
    order_ = EpochOrder(dataset_.corpora(), seed_, cursor_.epoch);
  }
}

GlobalBatch BatchStream::next() {
  GlobalBatch batch;
  batch.begin = cursor_;
  while (size_.pairs == 0 || batch.pairs.size() < size_.pairs) {
    BatchPair pair{.pair = order_.pair_at(cursor_.position)};
    pair.source_length = dataset_.source_length(pair.pair);
    pair.target_length = dataset_.target_length(pair.pair);
    bool full = size_.pairs == 0 && !batch.pairs.empty() &&
                batch.target_tokens + pair.target_length > size_.target_tokens;
    if (full) break;
    pair.first_source_token = batch.source_tokens;
    pair.first_target_token = batch.target_tokens;
    batch.source_tokens += pair.source_length;
    batch.target_tokens += pair.target_length;
    batch.pairs.push_back(pair);
    advance();
  }
  batch.end = cursor_;
  return batch;
}

double PairCost::of(const BatchPair& pair) const {
  double s = pair.source_length;
  double t = pair.target_length;
  return source_token * s + target_token * t + attention * (s * s + s * t + t * t / 2);
}

// The most expensive pair first, each to the rank that would finish it earliest.
std::vector<std::vector<uint32_t>> share_out(const GlobalBatch& batch,
                                             std::span<const double> speeds, const PairCost& cost) {
  bool usable = !speeds.empty() && std::all_of(speeds.begin(), speeds.end(), [](double speed) {
    return std::isfinite(speed) && speed > 0;
  });
  if (!usable) throw ConfigError("every worker needs a speed above 0 to get a share of the batch");
  std::vector<double> costs(batch.pairs.size());
  std::transform(batch.pairs.begin(), batch.pairs.end(), costs.begin(),
                 [&](const BatchPair& pair) { return cost.of(pair); });
  std::vector<uint32_t> by_cost(batch.pairs.size());
  std::iota(by_cost.begin(), by_cost.end(), 0);
  std::stable_sort(by_cost.begin(), by_cost.end(),
                   [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });

  std::vector<std::vector<uint32_t>> shares(speeds.size());
  std::vector<double> loads(speeds.size());
  for (size_t i = 0; i < by_cost.size(); ++i) {
    // The last pairs go to ranks without a pair, however slow these are.
    size_t left = by_cost.size() - i;
    auto idle = static_cast<size_t>(
        std::count_if(shares.begin(), shares.end(), [](const auto& s) { return s.empty(); }));
    size_t best = speeds.size();
    double best_time = 0;
    for (size_t r = 0; r < speeds.size(); ++r) {
      if (left <= idle && !shares[r].empty()) continue;
      double time = (loads[r] + costs[by_cost[i]]) / speeds[r];
      if (best == speeds.size() || time < best_time) {
        best = r;
        best_time = time;
      }
    }
    shares[best].push_back(by_cost[i]);
    loads[best] += costs[by_cost[i]];
  }
  for (auto& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

double cost_share(const GlobalBatch& batch, std::span<const uint32_t> indices,
                  const PairCost& cost) {
  double own = 0;
  double all = 0;
  for (const uint32_t i : indices) own += cost.of(batch.pairs[i]);
  for (const BatchPair& pair : batch.pairs) all += cost.of(pair);
  return all > 0 ? own / all : 0;
}

std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch, uint64_t most_tokens) {
  std::vector<uint32_t> all(batch.pairs.size());
  std::iota(all.begin(), all.end(), 0u);
  return split_by_tokens(batch, all, most_tokens);
}

std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch,
                                                   std::span<const uint32_t> indices,
                                                   uint64_t most_tokens) {
  std::vector<std::vector<uint32_t>> micro_batches;
  uint64_t tokens = 0;
  for (uint32_t i : indices) {
    const uint64_t more = uint64_t{batch.pairs[i].source_length} + batch.pairs[i].target_length;
    if (micro_batches.empty() || tokens + more > most_tokens) {
      micro_batches.emplace_back();
      tokens = 0;
    }
    micro_batches.back().push_back(i);
    tokens += more;
  }
  return micro_batches;
}

void PackedBatch::add(std::span<const uint32_t> source_ids, std::span<const uint32_t> target_ids,
                      uint32_t bos) {
  source.insert(source.end(), source_ids.begin(), source_ids.end());
  target_in.push_back(bos);
  target_in.insert(target_in.end(), target_ids.begin(), target_ids.end() - 1);
  target_out.insert(target_out.end(), target_ids.begin(), target_ids.end());
  source_offsets.push_back(static_cast<uint32_t>(source.size()));
  target_offsets.push_back(static_cast<uint32_t>(target_out.size()));
  first_source_token.push_back(0);
  first_target_token.push_back(0);
}

PackedBatch pack(const Dataset& dataset, const GlobalBatch& batch,
                 std::span<const uint32_t> indices, uint32_t bos) {
  PackedBatch packed;
  for (uint32_t index : indices) {
    const BatchPair& pair = batch.pairs[index];
    const size_t source_at = packed.source.size();
    const size_t target_at = packed.target_out.size();
    dataset.append_source(pair.pair, packed.source);
    dataset.append_target(pair.pair, packed.target_out);
    // The plan of the batch, and its memory, are made from the lengths.
    if (packed.source.size() - source_at != pair.source_length ||
        packed.target_out.size() - target_at != pair.target_length) {
      throw DataError(
          format("{}: was changed while it was read; do not write to a dataset that is "
                 "in use",
                 dataset.file_of(pair.pair)));
    }
    // The input is the output moved by one.
    const auto target = packed.target_out.begin() + static_cast<std::ptrdiff_t>(target_at);
    packed.target_in.push_back(bos);
    packed.target_in.insert(packed.target_in.end(), target, packed.target_out.end() - 1);
    packed.source_offsets.push_back(static_cast<uint32_t>(packed.source.size()));
    packed.target_offsets.push_back(static_cast<uint32_t>(packed.target_out.size()));
    packed.first_source_token.push_back(pair.first_source_token);
    packed.first_target_token.push_back(pair.first_target_token);
  }
  return packed;
}

}  // namespace reigen
