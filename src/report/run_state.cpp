#include "report/run_state.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/format.h"
#include "base/host.h"

namespace reigen {
namespace {

constexpr double kLeastSilence = 60;  // seconds
constexpr double kTimesLonger = 3;    // than the longest thing so far

// Seconds since 1970; nothing when there is no such process.
std::optional<double> process_began(uint64_t process) {
  std::ifstream in(format("/proc/{}/stat", process));
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  // The name in brackets may hold anything; the 20th field behind it is ticks since the boot.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  std::ifstream machine("/proc/stat");
  for (std::string line; std::getline(machine, line);) {
    if (!line.starts_with("btime ")) continue;
    return std::strtod(line.c_str() + 6, nullptr) +
           std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

double longest_pause(const RunSummary& run) {
  double longest = run.steps.total("slowest");
  for (const EvaluationRecord& e : run.evaluations) longest = std::max(longest, e.seconds);
  for (const CheckpointRecord& c : run.checkpoints) longest = std::max(longest, c.held_seconds);
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
  for (const auto& [rank, fold] : run.ranks) {
    latest = std::max(latest, fold.last_time);
    if (fold.last_sample) latest = std::max(latest, fold.last_sample->time);
  }
  return latest;
}

RunState state_of(const RunSummary& run, double now) {
  if (run.ended && !run.ends.empty()) {
    return {RunStateKind::kEnded, format("finished: {}", run.ends.back().reason)};
  }
  if (run.starts.empty() && !run.last_step) {
    return {RunStateKind::kStarting, "starting: nothing was measured yet"};
  }
  const std::string host = run.starts.empty() ? "its machine" : run.starts.back().host;
  if (host == host_name()) {
    const StartRecord& start = run.starts.back();
    const std::optional<double> began = process_began(start.process);
    if (!began) {
      return {RunStateKind::kGone,
              format("stopped without an end: process {} is gone; `reigen train --run RUN` goes on "
                     "from its last checkpoint",
                     start.process)};
    }
    // A later one has got the number since, or the clock was set: silence decides.
    if (*began < start.time + kLeastSilence) return {RunStateKind::kRunning, "running"};
  }
  const double silence = now - last_news(run);
  if (silence <= std::max(kLeastSilence, kTimesLonger * longest_pause(run))) {
    return {RunStateKind::kRunning, "running"};
  }
  return {RunStateKind::kSilent,
          format("no news for longer than anything took before: the run has stopped, or what {} "
                 "writes does not arrive here",
                 host)};
}

}  // namespace reigen
