#include "cli/launching.h"
#include "base/build.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "dist/launch/hosts/host_launch.h"
#include "dist/launch/hosts/hosts_file.h"
#include "dist/launch/restarts.h"
#include "train/directory/checkpoint_copy.h"
#include "train/directory/run_directory.h"
#include "train/run/event_command.h"
#include "train/workers/join.h"

namespace reigen {
namespace {

constexpr int kSignalled = 128;  // exit codes above it: killed by a signal, and so lost

std::vector<std::string> worker_arguments(const WorkerCommand& command) {
  std::vector<std::string> line = {command.name};
  line.insert(line.end(), command.arguments.begin(), command.arguments.end());
  return line;
}

Grace grace_of(const WorkerCommand& command) {
  Grace grace;
  // Whole seconds, as rank 0 logs them.
  const auto wait = static_cast<int64_t>(std::ceil(command.longest_wait));
  grace.longest_wait = std::chrono::seconds(wait);
  return grace;
}

LaunchResult launch_here(const WorkerCommand& command, const WorkerOptions& w,
                         const std::vector<std::string>& rank0_environment, Restarts* restarts,
                         std::optional<uint64_t> heard_of = std::nullopt) {
  const int workers = static_cast<int>(std::max<int64_t>(1, w.workers));
  const auto restored = restore_lost_run(command, w, heard_of);
  std::optional<uint64_t> last;  // also if the directory is lost meanwhile
  const auto look = [&] {
    const auto step = command.run.empty() ? std::nullopt : last_checkpoint(command.run);
    if (step) last = step;
  };
  LaunchResult result = launch_local({.workers = workers,
                                      .arguments = worker_arguments(command),
                                      .grace = grace_of(command),
                                      .rank0_environment = rank0_environment,
                                      .elastic = w.elastic,
                                      .restarts = restarts,
                                      .look = look});
  result.checkpoint = last;
  result.restored = restored;
  return result;
}

HostLaunch host_launch(const WorkerCommand& command, const WorkerOptions& w, Restarts& restarts) {
  HostLaunch launch;
  launch.grace = grace_of(command);
  launch.hosts = launch.listed = parse_hosts(w.hosts);
  launch.hosts_file = w.hosts_file;
  launch.arguments = worker_arguments(command);
  launch.rank0_environment = command.rank0_environment;
  launch.version = version_line();
  launch.ssh = {w.ssh_user, static_cast<int>(w.ssh_port)};
  launch.binary = w.remote_binary;
  launch.copy_binary = w.copy_binary;
  launch.run = w.restarts > 0 ? command.run : "";
  launch.copy = command.copy;
  launch.elastic = w.elastic;
  launch.restarts = &restarts;
  return launch;
}

std::string text_of(const LaunchResult& failure) {
  const std::string who = failure.rank < 0 && !failure.host.empty()
                              ? format("host {}", failure.host)
                              : rank_and_host(failure.rank, failure.host);
  return printable_line(format("{}: {}", who, failure.error));
}

LaunchResult launch(const WorkerCommand& command, const WorkerOptions& w, Restarts& restarts) {
  if (w.hosts.empty()) return launch_here(command, w, command.rank0_environment, &restarts);
  return launch_hosts(host_launch(command, w, restarts));
}

// Hosts that will be taken away, for as long as that takes: they still answer meanwhile.
class LeavingHosts {
 public:
  void add(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) since_[host] = {};
  }
  bool contains(const std::string& host) const {
    constexpr double kLongest = 600;  // seconds; Azure announces at most that much ahead
    const auto found = since_.find(host);
    return found != since_.end() && found->second.seconds() < kLongest;
  }

 private:
  std::map<std::string, Stopwatch> since_;
};

LaunchResult not_started(const std::string& why) {
  return {.code = static_cast<int>(ExitCode::kComm), .error = why, .started = false};
}

LaunchResult launch_again(const WorkerCommand& command, const WorkerOptions& w, Restarts& restarts,
                          const std::string& cause, const LeavingHosts& leaving) {
  constexpr std::chrono::seconds kConnectWithin{20};
  std::vector<std::string> environment =
      restart_environment({static_cast<uint64_t>(restarts.used()), cause});
  environment.insert(environment.end(), command.rank0_environment.begin(),
                     command.rank0_environment.end());
  if (w.hosts.empty()) {
    try {
      return launch_here(command, w, environment, &restarts, restarts.checkpoint());
    } catch (const CommError& e) {
      return not_started(e.what());
    }
  }
  HostLaunch launch = host_launch(command, w, restarts);
  launch.rank0_environment = environment;
  launch.restart = true;
  launch.checkpoint = restarts.checkpoint();
  launch.connect_within = kConnectWithin;
  std::erase_if(launch.hosts, [&](const HostSlots& h) { return leaving.contains(h.host); });
  if (launch.hosts.empty()) return not_started("all hosts will be taken away");
  try {
    return launch_hosts(launch);
  } catch (const CommError& e) {
    return not_started(e.what());
  }
}

void pause_before_restart(std::chrono::seconds pause) {
  constexpr std::chrono::milliseconds kTick{100};
  const Stopwatch waited;
  while (waited.seconds() < static_cast<double>(pause.count())) {
    check_interrupt();
    std::this_thread::sleep_for(kTick);
  }
}

void log_restart(const std::string& cause, const Restarts& restarts, std::chrono::seconds pause) {
  const auto step = restarts.checkpoint();
  log_warning(format("{}; restart {} of {} in {} s, {}; {} left", cause, restarts.used(),
                     restarts.allowed(), pause.count(),
                     step ? format("from the checkpoint of step {}", with_commas(*step))
                          : "from the beginning, because there is no checkpoint yet",
                     counted(static_cast<uint64_t>(restarts.left()), "restart")));
}

}  // namespace

std::optional<uint64_t> restore_lost_run(const WorkerCommand& command, const WorkerOptions& w,
                                         std::optional<uint64_t> heard_of) {
  const std::string& run = command.run;
  if (w.restarts == 0 || !w.hosts.empty() || run.empty() || path_exists(run)) return std::nullopt;
  const StartFrom from = start_from({.heard_of = heard_of, .copied = !command.copy.empty()});
  if (from == StartFrom::kDirectory) return std::nullopt;
  std::string missing = heard_of ? format("{} is gone, and with it the checkpoint of step {}", run,
                                          with_commas(*heard_of))
                                 : format("there is no run in {}", run);
  if (from == StartFrom::kNothing) throw CommError(missing);
  const CopyPlace place = {parse_copy_target(command.copy),
                           {w.ssh_user, static_cast<int>(w.ssh_port)}};
  bool none = true;
  try {
    if (const auto step = restore_if_copied(place, run)) {
      log_warning(format("{}; it continues from the copy in {}, of step {}", missing, command.copy,
                         with_commas(*step)));
      return step;
    }
    missing += format("; {} has no copy", command.copy);
  } catch (const IoError& e) {
    missing += format("; the copy in {} cannot be restored: {}", command.copy, e.what());
    none = false;
  }
  if (from == StartFrom::kCopy) throw CommError(missing);
  if (!none) log_warning(missing + "; the run begins with its first step");
  return std::nullopt;
}

bool starts_workers(const WorkerOptions& w) {
  if (!w.hosts.empty() && !w.hosts_file.empty()) {
    throw ConfigError("--hosts and --hosts-file both name the hosts; leave one of them out");
  }
  const bool on_hosts = !w.hosts.empty() || !w.hosts_file.empty();
  if (on_hosts && w.workers > 1) {
    throw ConfigError(
        "--hosts has the number of workers of each host, such as vm1:2,vm2:2; leave out --workers");
  }
  const bool asked = on_hosts || w.workers > 1 || w.restarts > 0;
  return asked && !was_placed() && !started_as_worker();
}

namespace {

// A host that is shut down sends SIGTERM to its workers, and so their job stops, as after a notice.
// A stop that the user asks for is a signal to this process.
LaunchResult with_shutdown(LaunchResult result, const WorkerOptions& options) {
  const bool stopped = result.code == static_cast<int>(ExitCode::kInterrupted);
  if (stopped && !options.hosts.empty() && !interrupt_requested()) {
    result.code = static_cast<int>(ExitCode::kPreempted);
  }
  return result;
}

bool may_restart(const LaunchResult& result, const WorkerOptions& options) {
  if (interrupt_requested()) return false;
  return !options.hosts.empty() || result.code != static_cast<int>(ExitCode::kPreempted);
}

}  // namespace

namespace {

bool was_killed(const LaunchResult& result) {
  return result.code > kSignalled && result.code != static_cast<int>(ExitCode::kInterrupted);
}

// The hosts of the next attempt.
void read_hosts_again(WorkerOptions& options) {
  if (options.hosts_file.empty()) return;
  try {
    options.hosts = text_of(read_hosts_file(options.hosts_file));
  } catch (const Error& e) {
    log_warning(format("the job starts again on the hosts of before: {}", e.what()));
  }
}

void raise_loss(EventCommand* events, const LaunchResult& result) {
  const bool lost = was_killed(result) || result.code == static_cast<int>(ExitCode::kComm);
  if (events == nullptr || !lost || !result.started || interrupt_requested()) return;
  events->raise(RunEvent::kLostWorker, result.checkpoint.value_or(0), text_of(result));
}

}  // namespace

void launch_workers(const WorkerCommand& command, const WorkerOptions& given) {
  WorkerOptions options = given;
  if (!given.hosts_file.empty()) options.hosts = text_of(read_hosts_file(given.hosts_file));
  std::unique_ptr<EventCommand> events;
  if (!command.on_event.empty()) {
    events = std::make_unique<EventCommand>(
        EventOptions{.command = command.on_event, .run = command.run});
  }
  Restarts restarts(command.run.empty() ? 0 : options.restarts);
  LeavingHosts leaving;
  LaunchResult result = launch(command, options, restarts);
  raise_loss(events.get(), result);
  while (!result.ok() && may_restart(result, options)) {
    const auto pause = restarts.after(with_shutdown(result, options));
    if (!pause) break;
    leaving.add(result.leaving);
    const std::string cause = text_of(result);
    log_restart(cause, restarts, *pause);
    pause_before_restart(*pause);
    read_hosts_again(options);
    result = launch_again(command, options, restarts, cause, leaving);
    raise_loss(events.get(), result);
  }
  if (result.ok()) return;
  const std::string& why = restarts.why_not();
  throw Error(was_killed(result) ? ExitCode::kComm : static_cast<ExitCode>(result.code),
              text_of(result) + (why.empty() ? "" : "; " + why));
}

}  // namespace reigen
