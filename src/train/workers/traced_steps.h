// `--timeline FIRST:LAST`: the chosen steps of all workers in one trace, by one clock.
#pragma once

#include <memory>
#include <string>

#include "dist/members/job.h"
#include "observe/sample/timeline.h"
#include "train/run/run_writer.h"

namespace reigen {

class TracedSteps {
 public:
  // Null when `range` is empty. The job must outlive it.
  static std::unique_ptr<TracedSteps> of(Job& job, const std::string& range);
  TracedSteps(Job& job, uint64_t first, uint64_t last);
  ~TracedSteps();
  TracedSteps(const TracedSteps&) = delete;
  TracedSteps& operator=(const TracedSteps&) = delete;

  Timeline& timeline() { return timeline_; }
  void begin(uint64_t step) {
    timeline_.at_step(step);
    timeline_.mark();
  }

  // On all ranks after the same step, or at the end of the run. After the last of the chosen steps,
  // or when `ending`, rank 0's `writer` writes timeline-FIRST-LAST.json.
  void after(uint64_t step, RunWriter* writer, bool ending = false);

 private:
  void write(RunWriter* writer);

  Job& job_;
  Timeline timeline_;
  uint64_t traced_ = 0;  // number of chosen steps seen
  bool done_ = false;
};

}  // namespace reigen
