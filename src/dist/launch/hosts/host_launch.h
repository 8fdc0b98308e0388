// `--hosts vm1:2,vm2:2`: workers on other hosts, started over ssh.
//
// One ssh to each host runs this program there as an agent. The agent starts that host's workers,
// sends their output back, and ends them when its input ends or lacks heartbeats: workers never
// outlive the launcher, also if the network between is cut. Those of an elastic job do: they end by
// themselves, or when the launcher is interrupted. Secrets are sent through that pipe,
// never on a command line.
#pragma once

#include <string>
#include <vector>

#include "dist/launch/hosts/host_slots.h"
#include "dist/launch/hosts/ssh.h"
#include "dist/launch/local_launch.h"

namespace reigen {

struct HostLaunch {
  std::vector<HostSlots> hosts;
  std::vector<std::string> arguments;  // of every worker
  std::string version;                 // of this build; the hosts must have the same
  // Of an elastic job: read again while it runs (hosts_file.h), where `listed` are the hosts that
  // it named at the start. Empty: the hosts stay.
  std::string hosts_file = {};
  std::vector<HostSlots> listed = {};
  SshOptions ssh;
  std::string binary;        // on the hosts; empty for the path it has here
  bool copy_binary = false;  // to ~/.cache/reigen of hosts that do not have it yet
  std::vector<std::string> rank0_environment = {};  // "KEY=value", for secrets
  bool elastic = false;  // a worker that ends is proven to the others, which continue
  // With --restarts: a worker of an elastic job that is lost is started again to join the others.
  Restarts* restarts = nullptr;
  Grace grace;
  std::chrono::milliseconds connect_within{60'000};
  // With --restarts: the run directory, whose last checkpoint the result has. Empty: not asked for.
  std::string run = {};
  // The place of its second copy (--checkpoint.copy-to), from which the run continues if no host is
  // usable that has its directory, or its last checkpoint. Empty: there is none.
  std::string copy = {};
  // A job that starts again leaves out hosts that are not usable. Its rank 0 is on the first host
  // with the latest checkpoint of the run.
  bool restart = false;
  std::optional<uint64_t> checkpoint = {};  // the step that a restart resumes from at least
};

// Returns when all workers have ended. Throws CommError if a host is not usable: ssh fails, no
// binary, a different version; at a restart, if no host is usable that has the checkpoint or can
// restore its copy.
LaunchResult launch_hosts(const HostLaunch& launch);

// The argument that makes this program an agent.
inline constexpr const char* kAgentCommand = "host-agent";

// The step of the last checkpoint of a run; nothing where there is none.
using LastCheckpoint = std::function<std::optional<uint64_t>(const std::string& run)>;

// Makes a run from the second copy of its last checkpoint; returns its step, or nothing where there
// is no copy. Throws Error.
using RestoreCopy = std::function<std::optional<uint64_t>(
    const std::string& place, const SshOptions& ssh, const std::string& run)>;

// The agent on a host: exchanges messages with the launcher over stdin and stdout, and returns when
// its workers have ended. Call it on the main thread, after catch_interrupts().
void run_host_agent(const std::string& version, const LastCheckpoint& last_checkpoint = {},
                    const RestoreCopy& restore_copy = {});

}  // namespace reigen
