// The causes that a verdict can name, and the rule that chooses one of them.
//
// One rule for a run that was measured (report/verdict/machine/bottleneck.h) and for a step that is
// predicted (plan/step_prediction.h, `reigen doctor`), so that a prediction and its run are judged
// alike.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reigen {

enum class Cause : uint8_t {
  kUnknown,  // too little was measured
  kCompute,
  kNetwork,          // gradient exchange between hosts
  kExchangeWork,     // the same, where processors limit it and not the link
  kLocalExchange,    // gradient exchange between workers of one host
  kStraggler,        // all ranks wait for a slower one
  kLateInTurn,       // each step waits for a different rank
  kInterference,     // other processes take the cores of the workers, or of a slow rank
  kSharedCores,      // workers, or their threads, are more than the cores they may use
  kQuota,            // a CPU quota stops the threads of the workers
  kStopped,          // the only worker was stopped as a whole: a signal, a paused machine
  kSteal,            // the hypervisor gives their cores to other virtual machines
  kMemory,           // they wait for pages that were dropped for lack of memory
  kGpuShared,        // other processes compute on their GPUs
  kGpuSlowed,        // a GPU does not reach its clock
  kSlowerProcessor,  // the same computing takes longer than earlier in the run
  kInput,
  kCompression,
  kEvaluation,
  kCheckpoint,
  kLogging,       // logs and records
  kContention,    // gradient exchange waiting for a CPU core
  kBetweenSteps,  // neither steps nor evaluations nor checkpoints
  kSeveral,       // none of them is large, and less than half of the time was compute
  // Parts of the time that are listed.
  kGradientCopy,  // compression that only copies: none, bf16, fp16
  kOther,         // named where it is large: no measured part explains the time
};

// The advice that belongs to a cause; report/verdict/machine/wording.cpp has the sentences.
enum class Advice : uint8_t {
  kNone,
  kFasterProcessors,
  kLargerProducts,  // compute is inefficient
  kFreeCores,       // exchanges wait for a core
  kFasterLink,
  kFewerBytes,  // exchanges compute for as long as they last
  kOneWorkerPerGpu,
  kFewerWorkers,
  kCheaperCompression,
  kInspectHost,
  kInspectQuota,  // the straggler is descheduled
  kMoreThreadsOfRank,
  kEvenRanks,  // late in turn
  kStopOthers,
  kFewerThreads,  // or workers: they share cores
  kMoreThreads,   // cores are idle
  kLiftQuota,
  kKeepRunning,  // it was stopped
  kOwnHost,      // steal
  kMoreMemory,
  kFreeGpu,
  kInspectGpu,
  kInspectClock,  // of a processor that became slower
  kFasterInput,   // of one rank, if there is one: disk or processor, which is not known
  kFasterDisk,
  kReaderWaits,   // the thread that reads waits for a core
  kReaderIsBusy,  // or computes all the time
  kLogElsewhere,
  kEvaluateLess,
  kSaveLess,
  kReadLog,  // time between steps
};

// `id` is the spelling in report.json and in the output of `reigen doctor --json`; `label` names a
// part of the time in a sentence; `advice` is the usual one, which details may change.
struct CauseInfo {
  Cause cause;
  const char* id;
  const char* label;
  Advice advice;
};
const CauseInfo& info_of(Cause cause);
const char* id_of(Cause cause);
// kUnknown for an id that is in no row.
Cause cause_of(std::string_view id);

struct CauseShare {
  Cause cause = Cause::kUnknown;
  double share = 0;  // of the time
};

// The decision about a period: `compute` is the share of computing, `others` are all other shares.
struct Decision {
  Cause cause = Cause::kCompute;
  CauseShare largest;  // of `others`, named or not
  double margin = 0;   // share of the time by which it is larger than the next cause
};
Decision decide(double compute, std::vector<CauseShare> others);

}  // namespace reigen
