#include "dist/compress/reduce_times.h"

#include <algorithm>

namespace reigen {

ReduceTimes reduce_times(const std::vector<OpTimes>& sent, CommClock::time_point computed) {
  ReduceTimes sum;
  if (sent.empty()) return sum;
  auto seconds = [](CommClock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  auto before_end = [&](CommClock::time_point begin, CommClock::time_point end) {
    return std::max(0.0, seconds(std::min(end, computed) - begin));
  };
  CommClock::time_point idle = sent[0].queued;  // when the network could take the next bucket
  for (const OpTimes& bucket : sent) {
    const auto duration = bucket.end - bucket.begin;
    sum.busy += seconds(duration);
    sum.hidden += before_end(bucket.begin, bucket.end);
    const auto begin = std::max(bucket.queued, idle);
    idle = begin + duration;
    sum.hidden_at_best += before_end(begin, idle);
  }
  sum.exposed = std::max(0.0, seconds(sent.back().end - computed));
  return sum;
}

}  // namespace reigen
