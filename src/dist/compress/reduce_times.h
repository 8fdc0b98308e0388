// The time of a step's communication, split into hidden behind backward and exposed.
#pragma once

#include <vector>

#include "dist/group/group.h"

namespace reigen {

// Seconds of one step.
struct ReduceTimes {
  double busy = 0;            // an operation was in progress
  double hidden = 0;          // the share of `busy` before backward ended
  double exposed = 0;         // the wait after backward
  double hidden_at_best = 0;  // `hidden`, had each bucket left when it was complete and the network
                              // idle
};

// `sent` in the order of the queue; `computed`: when backward ended.
ReduceTimes reduce_times(const std::vector<OpTimes>& sent, CommClock::time_point computed);

}  // namespace reigen
