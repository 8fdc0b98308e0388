#include "report/run_state.h"

#include <algorithm>

#include "base/format.h"
#include "base/machine.h"

namespace reigen {
namespace {

constexpr double kShortestSilence = 60;  // seconds
constexpr double kTimesLonger = 3;       // than the longest step, evaluation or checkpoint so far

double longest_pause(const RunSummary& run) {
  double longest = run.steps.total("slowest");
  for (const EvaluationRecord& e : run.evaluations) longest = std::max(longest, e.seconds);
  for (const CheckpointRecord& c : run.checkpoints) longest = std::max(longest, c.stall_seconds);
  return longest;
}

}  // namespace

const char* name_of(RunStateKind kind) {
  switch (kind) {
    case RunStateKind::kStarting:
      return "starting";
    case RunStateKind::kRunning:
      return "running";
    case RunStateKind::kEnded:
      return "ended";
    case RunStateKind::kGone:
      return "gone";
    case RunStateKind::kSilent:
      return "silent";
  }
  return "";
}

double last_news(const RunSummary& run) {
  double latest = run.starts.empty() ? 0 : run.starts.back().time;
  if (!run.evaluations.empty()) latest = std::max(latest, run.evaluations.back().time);
  if (!run.checkpoints.empty()) latest = std::max(latest, run.checkpoints.back().time);
  for (const auto& [rank, summary] : run.ranks) {
    latest = std::max(latest, summary.last_time);
    if (summary.last_sample) latest = std::max(latest, summary.last_sample->time);
  }
  return latest;
}

RunState state_of(const RunSummary& run, double now) {
  if (run.ended && !run.ends.empty()) {
    return {RunStateKind::kEnded, format("finished: {}", run.ends.back().reason)};
  }
  if (run.starts.empty() && !run.last_step) {
    return {RunStateKind::kStarting, "starting: no measurement yet"};
  }
  const std::string host = run.starts.empty() ? "its host" : run.starts.back().host;
  if (host == host_name()) {
    const StartRecord& start = run.starts.back();
    const ProcessState process = process_state(start.process, start.time);
    if (process == ProcessState::kEnded) {
      return {RunStateKind::kGone,
              format("killed: process {} does not exist any more; `reigen train --run RUN` "
                     "resumes from the last checkpoint",
                     start.process)};
    }
    // A replaced process may be this one with a clock that was set: its silence decides then.
    if (process == ProcessState::kRunning) return {RunStateKind::kRunning, "running"};
  }
  const double silence = now - last_news(run);
  if (silence <= std::max(kShortestSilence, kTimesLonger * longest_pause(run))) {
    return {RunStateKind::kRunning, "running"};
  }
  return {
      RunStateKind::kSilent,
      format("silent for three times as long as the longest step, evaluation or checkpoint: the "
             "run on {} has stopped, or its log does not arrive here",
             host)};
}

}  // namespace reigen
