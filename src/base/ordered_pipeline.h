// Work spread over threads whose results come out in the order they went in.
//
// Input is read and output is consumed one item at a time, each in order and never concurrently;
// only the work between runs in parallel. So a result does not depend on the number of threads,
// and memory is bounded by the few items under way.
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

// Returns when everything is written. The first exception of any stage stops all threads and is
// rethrown; an interrupt counts as one.
void run_ordered(const PipelineStages& stages, unsigned threads);

}  // namespace reigen
