// Whether a run is starting, running, ended, killed or silent, judged by its files and its process.
#pragma once

#include <string>

#include "observe/record/run_summary.h"

namespace reigen {

enum class RunStateKind {
  kStarting,  // no measurement yet
  kRunning,
  kEnded,   // with a record of the reason
  kGone,    // its process does not exist any more, and there is no record of an end
  kSilent,  // on a different host, without news for longer than any of its steps took
};

struct RunState {
  RunStateKind kind = RunStateKind::kStarting;
  std::string text;  // a sentence that only changes with the state
};

// `now` is in seconds since 1970. The process is looked up when the run is on this host.
RunState state_of(const RunSummary& run, double now);

const char* name_of(RunStateKind kind);

// The latest time stamp in the log of any rank.
double last_news(const RunSummary& run);

}  // namespace reigen
