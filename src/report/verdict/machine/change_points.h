// Finds where the level of a noisy series changed for good, such as the time of a step over a run.
//
// Ranks and medians are compared, not means, so that single slow steps do not count. A level must
// last, must hardly overlap with the level before, and must differ by a fifth: noise of a busy
// machine, which comes in waves, is not called a change.
#pragma once

#include <cstddef>
#include <vector>

namespace reigen {

// Fewer values than this on one side of a change are no evidence.
inline constexpr size_t kShortestLevel = 8;
inline constexpr double kLeastChange = 1.2;  // ratio of two levels

// Indices of the first value of each new level, ascending. Values are positive.
std::vector<size_t> change_points(const std::vector<double>& values);

}  // namespace reigen
