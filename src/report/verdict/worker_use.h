// Who had the cores that a worker may run on: the worker itself, other workers of the job, or other
// processes; and what that cost the worker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "observe/record/run_summary.h"

namespace reigen {

// Means over an interval of steps, from the process records of all ranks. Cores are counted as
// processor seconds per second.
struct WorkerUse {
  bool known = false;  // at least kFewestUseSeconds of records
  std::string list;    // of the cores it may run on: "0-3"
  double cores = 0;    // their number, or the quota of its control group if that is less
  double quota = 0;    // 0 without one
  double own = 0;
  double siblings = 0;       // used by other workers of the job on those cores
  double others = 0;         // used by other processes on those cores
  std::vector<int> sharing;  // ranks of those workers, this one included; empty without any
  double denied = 0;         // share of the time its threads were runnable without a core
  bool denied_known = false;
  double stolen = 0;        // cores that the hypervisor gave to others
  double major_faults = 0;  // per second
  // Shares of its computing time that it lost by waiting for a core.
  double lost_to_others = 0;
  double lost_to_workers = 0;  // other workers of the job, or more threads of its own than cores
};

// The GPUs of the host of a rank, which are not assigned to ranks. Zeros without GPUs.
struct GpuUse {
  double others = 0;  // processes that are none of the job's workers, on average
  double slowed = 0;  // share of the time with a clock lowered for temperature or by the hardware
};
GpuUse gpu_use(const RunSummary& run, int rank, const StepInterval& steps = {});

// By rank.
std::map<int, WorkerUse> worker_use(const RunSummary& run, const StepInterval& steps = {});

}  // namespace reigen
