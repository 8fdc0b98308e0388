// The offsets between the clocks of all ranks, estimated by messages there and back.
#pragma once

#include <functional>
#include <vector>

#include "dist/group/group.h"

namespace reigen {

struct ClockOffset {
  double seconds = 0;  // this clock minus rank 0's
  double error = 0;    // at most: half of the fastest round trip
};

// By rank, on all ranks. `now` reads the clock in seconds; the fastest of `rounds` round trips to
// each rank counts.
CommStatus measure_clock_offsets(Group& group, const std::function<double()>& now, int rounds,
                                 std::vector<ClockOffset>& offsets);

}  // namespace reigen
