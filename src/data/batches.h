// Global batches: what one optimizer step sees, whoever computes it.
//
// Batches are cut from the endless concatenation of epochs, so none is short and nothing is read
// twice or skipped. A batch is defined without reference to workers; each worker forms the whole
// batch (a few thousand look-ups) and packs its own share of it. A cursor is two numbers and can be
// restored under any number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"

namespace reigen {

struct Cursor {
  uint64_t epoch = 0;
  uint64_t position = 0;  // in the epoch's order
  bool operator==(const Cursor&) const = default;
};

// Exactly one of the two limits is set.
struct BatchSize {
  uint64_t target_tokens = 0;  // end of sentence included; a longer single pair comes alone
  uint64_t pairs = 0;
};

struct BatchPair {
  uint64_t pair = 0;
  uint32_t source_length = 0;
  uint32_t target_length = 0;
  // Number of the pair's first token among the batch's tokens: what dropout is keyed by, so that
  // it does not depend on which worker computes it.
  uint64_t first_source_token = 0;
  uint64_t first_target_token = 0;
};

struct GlobalBatch {
  Cursor begin;
  Cursor end;
  std::vector<BatchPair> pairs;
  uint64_t source_tokens = 0;
  uint64_t target_tokens = 0;
};

class BatchStream {
 public:
  // The dataset must outlive the stream and hold at least one pair.
  BatchStream(const Dataset& dataset, uint64_t seed, BatchSize size);

  GlobalBatch next();
  Cursor cursor() const { return cursor_; }
  void seek(Cursor cursor);

 private:
  void advance();

  const Dataset& dataset_;
  uint64_t seed_;
  BatchSize size_;
  Cursor cursor_;
  EpochOrder order_;
};

// What a pair costs to train on, in arbitrary units: linear layers per token, attention per query
// and key. The defaults are the multiplications of `base`, in units of 4 d^2 per layer: an encoder
// token takes 12 d^2, a decoder token 16 d^2 and a sixth of 32,768 d, a query and a key 2 d.
struct PairCost {
  double source_token = 3;
  double target_token = 6.7;
  double attention = 0.001;
  double of(const BatchPair& pair) const;
};

// Which pairs of the batch (by index, rising) each rank computes. Shares differ in cost by about
// one sentence at most, in proportion to `speeds` (one per rank, any unit). Every rank gets at
// least one pair while there are enough. A pure function of its arguments; throws ConfigError for a
// speed that is not above 0, or none.
std::vector<std::vector<uint32_t>> share_out(const GlobalBatch& batch,
                                             std::span<const double> speeds,
                                             const PairCost& cost = {});

// The batch in order, cut into runs of pairs with at most `most_tokens` source and target tokens
// each: what is computed at once. A longer pair comes alone.
std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch, uint64_t most_tokens);
// The same for some of its pairs.
std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch,
                                                   std::span<const uint32_t> indices,
                                                   uint64_t most_tokens);

// Flat arrays, nothing padded: sentence i is tokens [offsets[i], offsets[i+1]).
struct PackedBatch {
  std::vector<uint32_t> source;
  std::vector<uint32_t> target_in;   // begins with bos
  std::vector<uint32_t> target_out;  // ends with eos
  std::vector<uint32_t> source_offsets = {0};
  std::vector<uint32_t> target_offsets = {0};
  std::vector<uint64_t> first_source_token;
  std::vector<uint64_t> first_target_token;
};

PackedBatch pack(const Dataset& dataset, const GlobalBatch& batch,
                 std::span<const uint32_t> indices, uint32_t bos);

}  // namespace reigen
