// Global batches: the pairs of one optimizer step, independent of the number of workers.
//
// Batches are cut from the endless concatenation of epochs, so none is short and no pair is
// repeated or skipped. Each worker forms the whole batch (a few thousand look-ups) and packs its
// own share. A cursor is two numbers and can be restored with any number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/order.h"

namespace reigen {

// The position of the next pair in the data.
struct Cursor {
  uint64_t epoch = 0;
  uint64_t position = 0;  // in the epoch's order
  bool operator==(const Cursor&) const = default;
};

// Exactly one of the two limits is set.
struct BatchSize {
  uint64_t target_tokens = 0;  // with end of sentence; a longer pair is a batch of its own
  uint64_t pairs = 0;
};

struct BatchPair {
  uint64_t pair = 0;
  uint32_t source_length = 0;
  uint32_t target_length = 0;
  // The number of the pair's first token among the batch's tokens. It is the key of dropout, which
  // thus does not depend on the worker that computes the pair.
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
  // The dataset must outlive the stream and have at least one pair.
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

// The cost of training on a pair, in arbitrary units: linear layers per token, attention per query
// and key. The defaults are the multiplications of `base`, in units of 4 d^2 per layer: an encoder
// token takes 12 d^2; a decoder token 16 d^2, and 32,768 d / 6 for the output projection, which is
// divided over the six layers; each pair of a query and a key 2 d.
struct PairCost {
  double source_token = 3;
  double target_token = 6.7;
  double attention = 0.001;
  double of(const BatchPair& pair) const;
};

// Assigns the pairs of the batch to ranks: for each rank, rising indices. A share's cost is
// proportional to the rank's speed (any unit), up to about one sentence. Every rank gets at least
// one pair if there are enough. A pure function of its arguments; throws ConfigError if there is no
// speed, or one that is not above 0.
std::vector<std::vector<uint32_t>> share_out(const GlobalBatch& batch,
                                             std::span<const double> speeds,
                                             const PairCost& cost = {});

// The share of these pairs in the cost of the batch, from 0 to 1.
double cost_share(const GlobalBatch& batch, std::span<const uint32_t> indices,
                  const PairCost& cost = {});

// Splits the batch, in order, into micro-batches with at most `most_tokens` source and target
// tokens together. A longer pair is a micro-batch of its own.
std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch, uint64_t most_tokens);
// The same for a share of its pairs.
std::vector<std::vector<uint32_t>> split_by_tokens(const GlobalBatch& batch,
                                                   std::span<const uint32_t> indices,
                                                   uint64_t most_tokens);

// Pairs as flat arrays without padding: sentence i is tokens [offsets[i], offsets[i+1]).
struct PackedBatch {
  std::vector<uint32_t> source;
  std::vector<uint32_t> target_in;   // begins with bos
  std::vector<uint32_t> target_out;  // ends with eos
  std::vector<uint32_t> source_offsets = {0};
  std::vector<uint32_t> target_offsets = {0};
  std::vector<uint64_t> first_source_token;
  std::vector<uint64_t> first_target_token;

  // Appends a pair, both sides ending with eos, for a pass without dropout: token numbers are 0.
  void add(std::span<const uint32_t> source, std::span<const uint32_t> target, uint32_t bos);
};

PackedBatch pack(const Dataset& dataset, const GlobalBatch& batch,
                 std::span<const uint32_t> indices, uint32_t bos);

}  // namespace reigen
