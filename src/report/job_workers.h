// The workers of an elastic job as its last attempt left them: those that are present, and those
// that were lost, left or joined, by their lasting numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/record/run_summary.h"

namespace reigen {

struct PresentWorker {
  uint64_t worker = 0;
  std::string host;
  uint64_t since = 0;  // a member from the step after this one on
  bool operator==(const PresentWorker&) const = default;
};

struct WorkerChange {
  enum class What : uint8_t { kLost, kLeft, kJoined };
  uint64_t step = 0;  // the last one before it
  What what = What::kLost;
  uint64_t worker = 0;
  std::string host;
  std::string why;
  bool operator==(const WorkerChange&) const = default;
};
const char* name_of(WorkerChange::What what);

struct JobWorkers {
  std::vector<PresentWorker> present;  // by rank; none: the job is not elastic
  std::vector<WorkerChange> changes;
};
JobWorkers workers_of_job(const RunSummary& run);

}  // namespace reigen
