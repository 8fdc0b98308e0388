#include "cli/launching.h"

#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "dist/launch/host_launch.h"
#include "train/workers/join.h"

namespace reigen {
namespace {

LaunchResult launch(const std::vector<std::string>& arguments, const WorkerOptions& w,
                    const std::vector<std::string>& rank0_environment, double longest_wait) {
  Grace grace;
  // Whole seconds, as rank 0 logs them.
  grace.longest_wait = std::chrono::seconds(static_cast<int64_t>(std::ceil(longest_wait)));
  if (w.hosts.empty()) {
    return launch_local(static_cast<int>(w.workers), arguments, grace, rank0_environment);
  }
  HostLaunch launch;
  launch.grace = grace;
  launch.hosts = parse_hosts(w.hosts);
  launch.arguments = arguments;
  launch.rank0_environment = rank0_environment;
  launch.version = version_line();
  launch.user = w.ssh_user;
  launch.port = static_cast<int>(w.ssh_port);
  launch.binary = w.remote_binary;
  launch.copy_binary = w.copy_binary;
  return launch_hosts(launch);
}

}  // namespace

bool starts_workers(const WorkerOptions& w) {
  if (!w.hosts.empty() && w.workers > 1) {
    throw ConfigError(
        "--hosts has the number of workers of each host, such as vm1:2,vm2:2; leave out --workers");
  }
  return !was_placed() && !started_as_worker() && (!w.hosts.empty() || w.workers > 1);
}

void launch_workers(const std::string& command, const std::vector<std::string>& arguments,
                    const WorkerOptions& options, const std::vector<std::string>& rank0_environment,
                    double longest_wait) {
  std::vector<std::string> line = {command};
  line.insert(line.end(), arguments.begin(), arguments.end());
  const LaunchResult result = launch(line, options, rank0_environment, longest_wait);
  if (result.ok()) return;
  constexpr int kSignalled = 128;  // exit codes above it: killed by a signal, and so lost
  const bool killed =
      result.code > kSignalled && result.code != static_cast<int>(ExitCode::kInterrupted);
  throw Error(killed ? ExitCode::kComm : static_cast<ExitCode>(result.code),
              format("{}: {}", rank_and_host(result.rank, result.host), result.error));
}

}  // namespace reigen
