// Start here: how this process was started, and its placement: rank, size, rendezvous.
// Launchers of our own: local_launch.h (--workers), host_launch.h (--hosts).
//
// Recognised, in this order: Reigen's own launchers, torchrun, Open MPI's mpirun, Slurm's srun. The
// user never chooses a port: our launchers open it before any worker starts, PMIx (mpirun, and srun
// if built with it) publishes rank 0's, and elsewhere it is derived from the launcher's variables.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/members/membership.h"
#include "dist/net/socket.h"

namespace reigen {

enum class Launcher : uint8_t { kReigen, kTorchrun, kOpenMpi, kSlurm };
const char* name_of(Launcher launcher);

// A worker's rank and size, and the address of the rendezvous, as its launcher gave them.
struct Placement {
  Launcher launcher = Launcher::kReigen;
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the workers of this machine
  int local_size = 1;
  std::vector<Endpoint> rendezvous;  // candidate addresses; empty if PMIx will provide them
  std::vector<int> ports;            // rank 0 listens on the first free one; empty for any
  std::string token;                 // empty if PMIx will provide it
  bool secret = false;               // whether the token is random, not the launcher's job name
  int listen_fd = -1;                // rank 0's listening socket, opened by the launcher
  int parent_fd = -1;                // pipe to the launcher or agent (members/parent_pipe.h)
  std::string witness;               // the launcher as the witness of an elastic job, by its id
  std::vector<std::string> hosts;    // by rank; empty if unknown
  bool may_grow = false;             // workers on other machines may join it later
  std::vector<Endpoint> join;        // workers of the running job that this one joins; mostly none
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Nothing if no launcher started this process. Throws ConfigError if the variables of a launcher
// contradict each other.
std::optional<Placement> detect_launch(const Environment& environment = process_environment);

// Whether all workers are known to be on this machine.
bool all_on_this_machine(const Placement& placement);

struct RendezvousNeeds {
  std::string token_file;  // --token-file
  bool insecure = false;   // --insecure
};
// Opens rank 0's port, on loopback for a job of one machine, and finds the job's secret; under PMIx
// publishes both. Returns the options of a membership; the caller fills in the rest. Throws
// CommError, and ConfigError for a job on several hosts without a secret.
MembershipOptions prepare_rendezvous(Placement placement, const RendezvousNeeds& needs);

// This machine's name as the user knows it; empty if the launcher did not give it.
std::string host_of(const Placement& placement);
// The pipe to the process that started this one; not open if there is none.
Socket take_parent_pipe(const Placement& placement);

// The variable with the number of the worker's end of the pipe to its parent.
inline constexpr const char* kParentVariable = "REIGEN_AGENT_FD";

// The environment variables with which our launchers start a worker.
struct PlaceOnHost {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string rendezvous;  // "10.0.0.1:4711,192.168.0.1:4711"
  std::string token;
  std::string hosts;  // by rank, comma-separated; may be empty
  int depth = 1;      // launchers above the worker
  bool may_grow = false;
  std::string join;  // standby ports of the running job that it joins; empty at the start of a job
  std::string witness = {};  // the id of the launcher as the witness of an elastic job
};
std::vector<std::string> place_environment(const PlaceOnHost& place, int listen_fd);

// The number of launchers of ours above this process. A process below one never launches, so that
// no mistake can make them start each other without end: the check throws ConfigError.
int launch_depth(const Environment& environment = process_environment);
void check_launch_depth(const Environment& environment = process_environment);

// Addresses of this machine, with a port it listens on, for the other workers: all but loopback, or
// loopback alone if all workers are on this machine.
std::vector<Endpoint> own_endpoints(int port, bool all_on_this_machine);

// The first name of a Slurm node list such as "vm[03-05,9],gpu1".
std::string first_of_nodelist(const std::string& list);

}  // namespace reigen
