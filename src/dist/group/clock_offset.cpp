#include "dist/group/clock_offset.h"

#include <cmath>

namespace reigen {
namespace {

// Rank 0 asks `rank` for its time.
CommStatus measure_one(Group& group, int rank, const std::function<double()>& now, int rounds,
                       ClockOffset& offset) {
  double fastest = INFINITY;
  double theirs = 0;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&theirs, 1));
  for (int i = 0; i < rounds; ++i) {
    CommStatus status;
    if (group.rank() == 0) {
      const double before = now();
      status = group.send(bytes, rank).wait();
      if (status.ok()) status = group.receive(bytes, rank).wait();
      const double after = now();
      if (after - before < fastest) {
        fastest = after - before;
        offset = {.seconds = theirs - (before + after) / 2, .error = fastest / 2};
      }
    } else if (group.rank() == rank) {
      status = group.receive(bytes, 0).wait();
      theirs = now();
      if (status.ok()) status = group.send(bytes, 0).wait();
    }
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

CommStatus measure_clock_offsets(Group& group, const std::function<double()>& now, int rounds,
                                 std::vector<ClockOffset>& offsets) {
  offsets.assign(static_cast<size_t>(group.size()), {});
  for (int rank = 1; rank < group.size(); ++rank) {
    CommStatus status = measure_one(group, rank, now, rounds, offsets[static_cast<size_t>(rank)]);
    if (!status.ok()) return status;
  }
  return group.broadcast(std::as_writable_bytes(std::span(offsets)), 0).wait();
}

}  // namespace reigen
