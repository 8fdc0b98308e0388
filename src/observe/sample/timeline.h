// A few steps in full: what ran when, on which track, as Chrome's and Perfetto's trace viewers read
// it.
//
// Each rank collects its own events by its own steady clock; they come together when that clock's
// distance from the first rank's is known.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "observe/record/records.h"

namespace reigen {

class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  Timeline(uint64_t first, uint64_t last) : first_(first), last_(last) {}
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }

  // What comes from now on belongs to `step`; nothing is kept of steps that were not chosen.
  void at_step(uint64_t step);
  bool on() const;

  // On the track of what the worker itself does: from the last mark() or lap() until now.
  void mark();
  void lap(const char* name);
  // On another track, from any thread.
  void add(const char* track, std::string name, Clock::time_point begin, Clock::time_point end,
           uint64_t bytes = 0);
  // A step whose spans a device measured, one after another without a gap; the first such step ends
  // now.
  void add_chain(const char* track, uint64_t step, const Spans& spans);

  // Chrome's events of this rank, with `ahead` seconds taken off, and the names of its tracks.
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
