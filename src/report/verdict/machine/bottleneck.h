// The bottleneck of a run: which cause took its time, and how certain that is. Values only; the
// sentences are in report/verdict/machine/wording.h.
//
// Only exposed time is evidence: time that a step waited. The utilisation that a GPU reports is not
// evidence, because a collective that waits spins at 100%.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/compress_options.h"
#include "config/train_options.h"
#include "observe/record/run_summary.h"
#include "report/verdict/machine/causes.h"
#include "report/verdict/machine/run_time.h"
#include "report/verdict/machine/worker_use.h"
#include "report/verdict/verdict_text.h"

namespace reigen {

// Why a rank works longer than the others, the likeliest reason that the records support.
enum class SlowReason : uint8_t {
  kUnknown,       // too few samples, or the system hides who had its cores
  kQuota,         // descheduled
  kOthers,        // other processes had its cores
  kSharedCores,   // other workers of the job had them
  kFewerThreads,  // it computes with fewer threads than the others
  kFewerCores,    // it may use fewer cores than the others
  kSteal,         // the hypervisor gave them to others
  kMemory,        // it waited for pages from disk
  kClock,         // the clock of its cores is lower than before
  kGpuOthers,     // other processes compute on the GPUs of its host
  kGpuSlowed,     // a GPU of its host lowered its clock: temperature, power
  kHardware,      // no other process had its cores: its clock or memory is slower
};
struct LateRank {
  int rank = 0;
  double ratio = 1;  // its own work per step, against that of the faster ranks
  SlowReason reason = SlowReason::kUnknown;
};

// Rank 0's time in steps (without the first), evaluations and checkpoints, and between them, split
// by cause, in seconds that add up to `total`. Wall time and start-up are in
// report/verdict/machine/run_time.h.
struct TimeShares {
  double total = 0;
  double input = 0;  // rank 0 waited for its input, or for a rank that waited for its own
  double compute = 0;
  double compression = 0;   // of gradients
  double network = 0;       // the shortest wait of any rank in each step
  double straggler = 0;     // waiting beyond that, for the last rank to arrive
  double late_in_turn = 0;  // the same where no rank is slower than the others
  double awaited = 0;       // of that, rank 0's own compute while the others waited for it
  double contention = 0;    // exchanges that waited for a CPU core and not for the link
  double interference = 0;  // compute in which other processes had the cores
  double shared_cores = 0;  // compute in which workers or threads waited for a core they share
  double quota = 0;         // compute in which a CPU quota had stopped the threads
  double stopped = 0;       // compute in which the only worker was stopped, not by a quota
  double steal = 0;         // compute in which the hypervisor gave the cores to others
  double memory = 0;        // compute that waited for memory
  double gpu_shared = 0;    // compute in which other processes used the GPU
  double gpu_slowed = 0;    // compute that a lowered clock added, at most
  double evaluation = 0;
  double checkpoint = 0;  // stalls, and steps that were slower while a checkpoint was written
  double writing = 0;     // of that, in steps
  double logging = 0;
  double between = 0;  // between steps, of a whole run that is long enough to judge
  double other = 0;
  bool comparable = true;      // all ranks took part in about the same steps
  std::vector<LateRank> late;  // ranks that the others waited for, the slowest first
  int slowest_rank = -1;
  double slowest_ratio = 1;      // its own work, against that of the faster ranks
  int descheduled_rank = -1;     // the rank that was descheduled for the longest time
  double descheduled_share = 0;  // of its time
  bool descheduled = false;      // that makes it the slowest rank
  double late_input = 0;     // seconds per step that the slowest rank waits longer for its input
  int late_input_rank = -1;  // the slowest rank, where its input is most of its delay

  double all_compute() const { return compute + awaited; }
  // Computing time that others, limits or the hardware added.
  double lost_compute() const {
    return interference + shared_cores + quota + stopped + steal + memory + gpu_shared + gpu_slowed;
  }
};

// FLOP/s of matrix products while computing, and in large products on the same devices. Zeros where
// the log lacks them, or where attempts had different workers or devices.
struct Efficiency {
  double achieved = 0;
  double capacity = 0;      // the highest measurement
  double capacity_low = 0;  // the lowest
  double share() const { return capacity > 0 ? achieved / capacity : 0; }
  bool low() const;  // below kEfficientShare
};
Efficiency efficiency(const RunSummary& run, const TimeShares& shares);

// Whether workers exchange gradients between hosts.
bool crosses_network(const RunSummary& run);

// Of the whole run, or of an interval of its steps. `uses`: of the same interval.
TimeShares time_shares(const RunSummary& run, const StepInterval& steps,
                       const std::map<int, WorkerUse>& uses);
TimeShares time_shares(const RunSummary& run);

// The cause of a part of a run, with the numbers that it was judged by.
struct Judgement {
  Cause cause = Cause::kUnknown;
  Confidence confidence = Confidence::kNone;
  Advice advice = Advice::kNone;
  double exchange_work = 0;  // cores that were busy while steps waited for the network
  int rank = -1;             // that the others wait for, or with late input
  CauseShare largest;        // the largest cause other than compute, whether it is named or not
  StepInterval interval;
  TimeShares shares;
  std::vector<CauseShare> parts;  // all but compute, the largest first, without those near 0%
};

// Facts for a command that continues the run.
struct RunPlace {
  std::string path;                     // of its directory; empty: not known
  std::optional<TrainOptions> options;  // as it recorded them
  uint64_t limit = 0;  // a new --max-steps, where the run has reached its own; 0: not needed
};

struct RunCourse;  // report/verdict/machine/run_course.h

// The headline is that of the last stretch where a change led to it, and of the whole run
// otherwise.
struct Bottleneck : Judgement {
  bool of_last_stretch = false;
  Judgement whole;  // the whole run
  std::shared_ptr<const RunCourse> course;
  std::map<int, WorkerUse> uses;  // of the whole run
  double steps = 0;               // after the first
  Efficiency efficiency;
  CompressSetting compression;
  RunTime time;
  std::optional<PredictionRecord> prediction;  // of the last attempt
  GpuUse gpu;                                  // of the host of rank 0
  double resent = 0;         // highest share of a host's TCP segments that were sent again
  int resent_rank = -1;      // the lowest rank of that host
  double nominal_speed = 0;  // bytes per second, of the slowest interface of the job; 0: not known
  std::vector<double> evaluations;  // seconds of each
  std::vector<double> saves;        // seconds of stall of each checkpoint
  double mean_step = 0;             // seconds
  RunPlace place;
};
Bottleneck bottleneck(const RunSummary& run);

}  // namespace reigen
