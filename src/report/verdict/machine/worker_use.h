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
  bool known = false;       // at least kFewestUseSeconds of records
  std::string list;         // of the cores it may run on: "0-3"
  double cores = 0;         // their number, or the quota of its control group if that is less
  double quota = 0;         // 0 without one
  double threads = 0;       // that compute; 0: not known
  double memory_limit = 0;  // bytes that its control group may use; 0 without a limit
  double own = 0;
  double siblings = 0;       // used by other workers of the job on those cores
  double others = 0;         // used by other processes on those cores
  std::vector<int> sharing;  // ranks of those workers, this one included; empty without any
  double idle = 0;           // cores of its list that no process used
  double denied = 0;         // share of the time its threads were runnable without a core
  bool denied_known = false;
  double stolen = 0;        // cores that the hypervisor gave to others
  double major_faults = 0;  // per second
  double pressure = 0;      // share of the time in which any process of its host waited for memory
  bool pressure_known = false;
  // Shares of its time of the thread that reads and packs batches.
  double input_running = 0;
  double input_waiting = 0;  // for a core
  bool input_known = false;
  // Shares of its computing time that it lost by waiting for a core, or for memory.
  double lost_to_quota = 0;
  double lost_to_hypervisor = 0;
  double lost_to_others = 0;
  double lost_to_workers = 0;  // other workers of the job, or more threads of its own than cores
  double lost_to_memory = 0;

  // Pages come from disk all the time; whether that costs time is known where the pressure is.
  bool short_of_memory() const;
  // Its threads, which may have to feed a GPU, waited for cores that other processes had.
  bool waits_for_others() const;
};

// Cores that a worker could use beside its threads, with its share of the idle cores of its host.
double idle_threads(const WorkerUse& use);

// The GPUs of the host of a rank: those that the job uses, as far as NVML shows which. Zeros
// without GPUs.
struct GpuUse {
  double others = 0;  // processes that are none of the job's workers, on average
  double slowed = 0;  // share of the time with a clock lowered for temperature or by the hardware
  double lost_clock = 0;  // share of the highest clock that was not reached
  bool clock_known = false;
  double other_use = 0;  // share of the time in which kernels of those processes ran
  bool other_use_known = false;
  std::string slowed_by;  // last known reasons

  // Whether that explains slow steps.
  bool shared() const;
  bool slow() const;
};
GpuUse gpu_use(const RunSummary& run, int rank, const StepInterval& steps = {});

// The rank that samples the host of a rank: the lowest one there. Null without samples.
const RankSummary* host_of(const RunSummary& run, int rank);

// By rank.
std::map<int, WorkerUse> worker_use(const RunSummary& run, const StepInterval& steps = {});

}  // namespace reigen
