// The causes that a verdict can name, and the rule that chooses one of them.
//
// One rule for a run that was measured (report/verdict/verdicts.h) and for a step that is predicted
// (plan/step_prediction.h, `reigen doctor`), so that a prediction and its run are judged alike.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reigen {

enum class Cause : uint8_t {
  kUnknown,  // too little was measured
  kCompute,
  kNetwork,        // gradient exchange between hosts
  kLocalExchange,  // gradient exchange between workers of one host
  kStraggler,      // all ranks wait for a slower one
  kInterference,   // other processes take the cores of the workers, or of a slow rank
  kSharedCores,    // workers, or their threads, are more than the cores they may use
  kInput,
  kCompression,
  kEvaluation,
  kCheckpoint,
  // Parts of the time that are listed and never named by a verdict.
  kGradientCopy,  // compression that only copies: none, bf16, fp16
  kContention,    // gradient exchange waiting for a CPU core
  kOther,
};

// The advice that belongs to a cause; report/verdict/wording.cpp has the sentences.
enum class Advice : uint8_t {
  kNone,
  kFasterProcessors,
  kLargerProducts,  // compute is inefficient
  kFreeCores,       // exchanges wait for a core
  kFasterLink,
  kOneWorkerPerGpu,
  kFewerWorkers,
  kCheaperCompression,
  kInspectHost,
  kInspectQuota,  // the straggler is descheduled
  kStopOthers,
  kFewerThreads,  // or workers: they share cores
  kFasterDisk,
  kFasterDiskOfRank,
  kEvaluateLess,
  kSaveLess,
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
