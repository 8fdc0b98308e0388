// Times something on a context's stream by device events.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/cuda/context.h"

namespace reigen::bench {

// The median of `repeats`, after two that do not count.
template <class F>
double median_milliseconds(const cuda::Context& context, int repeats, F work) {
  cuda::Event start(cuda::Event::Timing::kOn), stop(cuda::Event::Timing::kOn);
  std::vector<float> times;
  for (int i = 0; i < repeats + 2; ++i) {
    start.record(context.stream());
    work();
    stop.record(context.stream());
    stop.wait();
    if (i >= 2) times.push_back(stop.milliseconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

}  // namespace reigen::bench
