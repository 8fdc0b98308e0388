// Parallel work on a sequence of items, with results in the order of the input.
//
// Items are read and written one at a time, in order and never concurrently; only the work between
// runs in parallel. So the output does not depend on the number of threads, and memory is bounded
// by the few items in flight.
#pragma once

#include <functional>
#include <memory>

namespace reigen {

struct PipelineItem {
  virtual ~PipelineItem() = default;
};

struct PipelineStages {
  std::function<std::unique_ptr<PipelineItem>()> read;       // in order; null ends the input
  std::function<void(PipelineItem&, unsigned thread)> work;  // in parallel
  std::function<void(PipelineItem&)> write;                  // in order
};

// Returns when all items are written. The first exception of any stage stops all threads and is
// rethrown; so does an interrupt.
void run_ordered(const PipelineStages& stages, unsigned threads);

}  // namespace reigen
