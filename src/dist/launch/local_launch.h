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

// Starts `workers` copies of this binary with `arguments` and returns when all have ended. Each
// reads its placement from the environment (launch.h); rank 0 has `rank0_environment` as well.
// Lines are shown as "[1] ...", rank 0's status as the terminal's status line, rank 0's stdout
// unchanged. SIGINT, SIGTERM and SIGHUP are forwarded; if this process dies for any reason, the
// kernel kills the workers. `elastic`: a worker that ends is proven to the others,
// which continue. `look` is called ten times a second, and after the last end. Call it on the main
// thread, after catch_interrupts(), with no other thread running but those that only start
// commands.
LaunchResult launch_local(int workers, const std::vector<std::string>& arguments,
                          const Grace& grace = {},
                          const std::vector<std::string>& rank0_environment = {},
                          bool elastic = false, const std::function<void()>& look = {});

// Shows the workers' output on this terminal.
WorkerOutput show_workers();

}  // namespace reigen
