// `--workers N`: starts N copies of this program on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/launch/launched_workers.h"

namespace reigen {

// The result of a launch: ok, or the first worker that failed.
struct LaunchResult {
  int code = 0;
  int rank = -1;  // -1: no worker but the connection to its host
  std::string host;
  std::string error;
  // The step of the run's last checkpoint, where it is known: only with --restarts.
  std::optional<uint64_t> checkpoint = {};
  // The step of the second copy that the run began with, because its own directory was lost.
  std::optional<uint64_t> restored = {};
  bool started = true;                    // workers were started
  std::vector<std::string> leaving = {};  // hosts that will be taken away (log_leaving())
  // Hosts on which workers of an elastic job may still train: only the connection to them ended.
  std::vector<std::string> unseen = {};
  bool ok() const { return code == 0; }
};

class Restarts;

struct LocalLaunch {
  int workers = 1;
  std::vector<std::string> arguments;  // of every worker
  Grace grace = {};
  std::vector<std::string> rank0_environment = {};  // "KEY=value", for secrets
  bool elastic = false;  // a worker that ends is proven to the others, which continue
  // With --restarts: a worker of an elastic job that is lost is started again to join the others.
  Restarts* restarts = nullptr;
  std::function<void()> look = {};  // called ten times a second, and after the last end
};

// Starts copies of this binary and returns when all have ended. Each
// reads its placement from the environment (launch.h).
// Lines are shown as "[1] ...", rank 0's status as the terminal's status line, rank 0's stdout
// unchanged. SIGINT, SIGTERM and SIGHUP are forwarded; if this process dies for any reason, the
// kernel kills the workers. Call it on the main thread, after catch_interrupts(), with no other
// thread running but those that only start commands.
LaunchResult launch_local(const LocalLaunch& launch);

// Shows the workers' output on this terminal.
WorkerOutput show_workers();

}  // namespace reigen
