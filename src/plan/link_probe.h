// What the network between workers carries, measured through the group that will train over it.
//
// A time is modelled as latency + bytes / bandwidth for each piece of 1 MB. The model is fitted to
// an all-reduce of rising sizes and says how far it was off; a shaper or a cloud port that lets a
// burst pass is drained by a message of the same size first. All ranks call each function at the
// same time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/group/group.h"

namespace reigen {

struct CurvePoint {
  double bytes = 0;  // of the vector that is summed
  double seconds = 0;
  double cpu = 0;  // seconds that this machine's processors were busy with it
};

// Seconds of an all-reduce of b bytes over n workers, in p pieces one behind the other:
// p latency + 2(n-1)/n b / bandwidth.
struct LinkModel {
  double latency = 0;    // seconds
  double bandwidth = 1;  // bytes a second that a worker sends and receives at once
  double error = 0;      // the largest relative one at a size that was measured
  double cpu = 0;        // seconds of a processor for each byte that a worker sends
  double seconds(double bytes, int workers) const;  // in pieces of 1 MB
};

// Rising sizes up to all of `data`, which is where the group wants it and zero; those above 1 MB in
// pieces of it. Ended early when `budget` seconds are over, but not before kLeastProbe elements,
// which there have to be, or a quarter of them where these take twice as long. The same on all
// ranks.
constexpr size_t kLeastProbe = 1 << 18;
CommStatus measure_all_reduce(Group& group, std::span<float> data, double budget,
                              std::vector<CurvePoint>& curve);
LinkModel fit(const std::vector<CurvePoint>& curve, int workers);

// Seconds of a processor for each element, with what moving it takes, of an all-reduce that rounds
// to 4 bits: on each rank its own. `curve` tells how many elements there is time for.
CommStatus measure_rounding(Group& group, const std::vector<CurvePoint>& curve, double& each);

struct PairLink {
  int from = 0;
  int to = 0;
  double bandwidth = 0;  // bytes a second, one way
  double latency = 0;    // half a round trip
};
// One stream from rank to rank for about `seconds`; the others wait. All ranks get the result.
CommStatus measure_pair(Group& group, int from, int to, double seconds, PairLink& link);

// By how many seconds each rank's clock is ahead of rank 0's.
CommStatus measure_clocks(Group& group, std::vector<double>& ahead);

}  // namespace reigen
