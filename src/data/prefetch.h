// The next batches, formed and packed by a thread of their own while the device computes.
//
// The order is the stream's, and a batch does not depend on when it was formed: prefetching changes
// how long a step waits for its input and nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "data/batches.h"

namespace reigen {

// A global batch and the micro-batches it is computed in.
struct ReadyBatch {
  GlobalBatch batch;
  std::vector<PackedBatch> parts;
  std::vector<std::shared_ptr<void>> staged;  // what `stage` made of each part
};

// Makes something of a part where the batch is made, beside the step that is computed: its copy on
// a GPU. Empty for nothing.
using StagePart = std::function<std::shared_ptr<void>(const PackedBatch&)>;

struct PrefetchOptions {
  uint64_t micro_tokens = 0;  // most in a part
  uint32_t bos = 0;
  size_t depth = 2;  // batches kept ready
  StagePart stage;
  int rank = 0;  // whose share of each batch is wanted
  int workers = 1;
};

class Prefetcher {
 public:
  // The dataset must outlive it.
  Prefetcher(const Dataset& dataset, BatchStream stream, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch; rethrows what kept the thread from making it.
  ReadyBatch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reigen
