// The trace of a few chosen steps for Perfetto and chrome://tracing: begin and end of each span, by
// track.
//
// Each rank collects its events by its own steady clock; rank 0 merges them with the measured
// offset of that clock from its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "observe/record/records.h"

namespace reigen {

class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  Timeline(uint64_t first, uint64_t last) : first_(first), last_(last) {}
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }

  // Later events belong to `step`; events of steps that were not chosen are dropped.
  void at_step(uint64_t step);
  bool on() const;

  // A span on the worker's own track: from the last mark() or lap() until now.
  void mark();
  void lap(const char* name);
  // A span on any other track, from any thread.
  void add(const char* track, std::string name, Clock::time_point begin, Clock::time_point end,
           uint64_t bytes = 0);
  // The spans of a step measured by a device, consecutive without gaps. The first step added ends
  // now, later ones follow it.
  void add_chain(const char* track, uint64_t step, const Spans& spans);

  // Trace events of this rank and the names of its tracks. `ahead` seconds are subtracted.
  Json events(int rank, const std::string& name, double ahead) const;

 private:
  struct Event {
    std::string track;
    std::string name;
    double begin;  // seconds of the steady clock
    double end;
    uint64_t step;
    uint64_t bytes;
  };
  static double seconds(Clock::time_point when) {
    return std::chrono::duration<double>(when.time_since_epoch()).count();
  }

  uint64_t first_;
  uint64_t last_;
  mutable std::mutex mutex_;
  uint64_t step_ = 0;
  Clock::time_point mark_;
  double chain_end_ = 0;
  std::vector<Event> events_;
};

}  // namespace reigen
