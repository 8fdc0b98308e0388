// Whether a run is going on, has ended, or has fallen silent, as far as its files tell.
#pragma once

#include <string>

#include "observe/record/run_summary.h"

namespace reigen {

enum class RunStateKind {
  kStarting,  // nothing was measured yet
  kRunning,
  kEnded,   // and said why
  kGone,    // its process is no more, and it did not say that it ended
  kSilent,  // on another machine, and nothing came for longer than anything of it took before
};

struct RunState {
  RunStateKind kind = RunStateKind::kStarting;
  std::string text;  // a sentence; the same for as long as nothing changes
};

// `now` is in seconds since 1970. Asks this machine about the process when the run is on it.
RunState state_of(const RunSummary& run, double now);

const char* name_of(RunStateKind kind);

// The latest time stamp of any rank.
double last_news(const RunSummary& run);

}  // namespace reigen
