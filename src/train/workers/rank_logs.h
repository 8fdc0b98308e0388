// What every worker measures of itself and its machine, on its way to the first worker's disk.
//
// Only the first worker has a run directory. The others keep what they measured as lines of text
// and hand them over every so many steps: a message of some kilobytes, at a moment all know of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/members/job.h"
#include "observe/record/records.h"
#include "observe/sample/deschedule_watch.h"
#include "observe/sample/sampler.h"

namespace reigen {

class RankLogs {
 public:
  // Samples the machine if this is its first worker. The job must outlive it.
  RankLogs(Job& job, bool on_gpu);

  void step(const StepRecord& record);
  DescheduleWatch& held() { return held_; }

  // All workers, after the same step. At the first one: everybody's lines since the last time, by
  // rank; nothing elsewhere.
  std::vector<std::string> exchange();
  void stop_sampling();  // before the last exchange

 private:
  void close_window();

  Job& job_;
  DescheduleWatch held_;
  std::unique_ptr<Sampler> sampler_;
  SpansRecord window_;
  std::string lines_;
};

// Adds the spans and bytes of a step to a sum.
void add_step(SpansRecord& sum, const StepRecord& record);

}  // namespace reigen
