// The next batches, formed and packed on a thread of their own while the device computes.
//
// The order is that of the stream, and a batch does not depend on when it was formed: prefetching
// changes only how long a step waits for its input.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "data/batches.h"
#include "data/staged_batch.h"

namespace reigen {

// A global batch and this worker's share of it, in micro-batches.
struct ReadyBatch {
  GlobalBatch batch;
  std::vector<PackedBatch> micro_batches;
  double share = 1;                                  // of the cost of the batch
  std::vector<std::shared_ptr<StagedBatch>> staged;  // result of `stage` for each micro-batch
};

// Copies a micro-batch to the device. Called on the input thread, while a step is computed.
using StageBatch = std::function<std::shared_ptr<StagedBatch>(const PackedBatch&)>;

struct PrefetchOptions {
  uint64_t micro_tokens = 0;  // limit for a micro-batch
  uint32_t bos = 0;
  size_t depth = 2;  // batches prepared ahead
  StageBatch stage;  // optional
  int rank = 0;      // the worker whose share is packed
  int workers = 1;
  std::vector<double> shares;  // of the workers, in any unit; empty: equal ones
};

class Prefetcher {
 public:
  // The dataset must outlive it.
  Prefetcher(const Dataset& dataset, BatchStream stream, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch. Rethrows an error of the input thread.
  ReadyBatch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reigen
