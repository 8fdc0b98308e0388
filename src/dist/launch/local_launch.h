// `--workers N`: this program again, N times, on this machine.
#pragma once

#include <string>
#include <vector>

#include "dist/launch/launched_workers.h"

namespace reigen {

// How a launch ended: the first worker that failed, or ok.
struct LaunchResult {
  int code = 0;
  int rank = -1;
  std::string host;
  std::string error;
  bool ok() const { return code == 0; }
};

// Starts `workers` copies of this binary with `arguments` and returns when all have ended. Each
// finds its place in the environment (dist/launch.h). Lines are shown as "[1] ...", rank 0's status
// as the terminal's, rank 0's stdout as it is. SIGINT, SIGTERM and SIGHUP are passed on; when this
// process dies in any way, the kernel kills the workers. Call it on the main thread, with
// catch_interrupts() in force and no other thread running.
LaunchResult launch_local(int workers, const std::vector<std::string>& arguments,
                          const Grace& grace = {});

// The output of workers on this terminal.
WorkerOutput show_workers();

}  // namespace reigen
