// `reigen train`: alone, as one of several workers, or as the one who starts them.
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "dist/host_launch.h"
#include "train/background.h"
#include "train/join.h"
#include "train/trainer.h"

namespace reigen {
namespace {

std::vector<std::string> command_line(const TrainOptions& options) {
  std::vector<std::string> arguments = {"train"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

LaunchResult launch(const TrainOptions& options) {
  const WorkerOptions& w = options.workers;
  if (w.hosts.empty()) return launch_local(static_cast<int>(w.workers), command_line(options));
  HostLaunch launch;
  launch.hosts = parse_hosts(w.hosts);
  launch.arguments = command_line(options);
  launch.version = version_line();
  launch.user = w.ssh_user;
  launch.port = static_cast<int>(w.ssh_port);
  launch.binary = w.remote_binary;
  launch.copy_binary = w.copy_binary;
  return launch_hosts(launch);
}

// A worker's end is everybody's: the others hear why before they notice that it is gone.
void train_as_worker(TrainOptions options) {
  Crew crew = join_crew(options, version_line());
  try {
    train(options, version_line(), crew);
  } catch (const std::exception& e) {
    if (crew.team() != nullptr) crew.team()->control().report_error(e.what());
    throw;
  }
}

}  // namespace

void run_train(const TrainOptions& options) {
  const WorkerOptions& w = options.workers;
  if (w.detach && !started_as_worker()) {
    TrainOptions attached = options;
    attached.workers.detach = false;
    std::erase(attached.arguments, "--detach");
    return run_in_background(options.run, [&] { run_train(attached); });
  }
  if (!w.hosts.empty() && w.workers > 1) {
    throw ConfigError("--hosts says how many workers each host gets; leave out --workers");
  }
  if (started_as_worker() || (w.hosts.empty() && w.workers <= 1)) return train_as_worker(options);
  const LaunchResult result = launch(options);
  if (result.ok()) return;
  constexpr int kSignalled = 128;  // a worker that something killed is lost, whatever the signal
  const bool killed =
      result.code > kSignalled && result.code != static_cast<int>(ExitCode::kInterrupted);
  throw Error(killed ? ExitCode::kComm : static_cast<ExitCode>(result.code),
              format("{}: {}", rank_and_host(result.rank, result.host), result.error));
}

}  // namespace reigen
