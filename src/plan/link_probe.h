// Measures the network between workers through the group that will train over it.
//
// The time of a message is modelled as latency + bytes / bandwidth for each segment of 1 MB. The
// model is fitted to all-reduces of rising sizes and states its largest error. Traffic shapers and
// cloud ports let a burst pass at full speed, so each size is sent once unmeasured to use the burst
// up. All ranks call each function at the same time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "dist/group/group.h"

namespace reigen {

// A measured all-reduce.
struct CurvePoint {
  double bytes = 0;  // of the vector that is reduced
  double seconds = 0;
  double cpu = 0;  // processor seconds of this process
};

// Seconds of an all-reduce of b bytes over n workers, in s segments one after the other:
// s latency + 2(n-1)/n b / bandwidth.
struct LinkModel {
  double latency = 0;    // seconds
  double bandwidth = 1;  // bytes per second that a worker sends and receives at once
  double error = 0;      // the largest relative error at a measured size
  double cpu = 0;        // processor seconds for each byte that a worker sends
  double seconds(double bytes, int workers) const;  // in segments of 1 MB
};

// Measures rising sizes up to all of `data`, which holds zeros in the group's kind of memory; sizes
// above 1 MB in segments. Stops when `budget` seconds are over, but not before kSmallestProbe
// elements (a quarter of them where these take twice the budget). `data` has at least
// kSmallestProbe elements. All ranks get the same curve.
constexpr size_t kSmallestProbe = 1 << 18;
CommStatus measure_all_reduce(Group& group, std::span<float> data, double budget,
                              std::vector<CurvePoint>& curve);
LinkModel fit_link(const std::vector<CurvePoint>& curve, int workers);

// Processor seconds per element of an int4 all-reduce, moving the bytes included; each rank gets
// its own. `curve` limits the number of elements to those that fit into a fifth of a second.
CommStatus measure_rounding(Group& group, const std::vector<CurvePoint>& curve, double& each);

// The measured link from one rank to another.
struct PairLink {
  int from = 0;
  int to = 0;
  double bandwidth = 0;  // bytes per second in this direction
  double latency = 0;    // half a round trip
};
// One stream between two ranks for about `seconds`; the other ranks wait. All ranks get the result.
CommStatus measure_pair(Group& group, int from, int to, double seconds, PairLink& link);

// Every pair of these ranks while there are few; a ring where all pairs would take too long.
std::vector<std::pair<int, int>> pairs_to_measure(const std::vector<int>& ranks);
// Both directions of each pair, one after the other, in about `seconds` for all of them.
CommStatus measure_pairs(Group& group, const std::vector<std::pair<int, int>>& pairs,
                         double seconds, std::vector<PairLink>& links);

// Seconds by which each rank's clock is ahead of rank 0's.
CommStatus measure_clocks(Group& group, std::vector<double>& ahead);

}  // namespace reigen
