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
#include "dist/members/socket.h"

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
  bool secret = false;               // whether the token is random, not derived from the job's name
  int listen_fd = -1;                // rank 0's listening socket, opened by the launcher
  std::vector<std::string> hosts;    // by rank; empty if unknown
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Nothing if no launcher started this process. Throws ConfigError if the variables of a launcher
// contradict each other.
std::optional<Placement> detect_launch(const Environment& environment = process_environment);

// Opens rank 0's port and, under PMIx, publishes it. Returns the options of a membership; the
// caller fills in the rest. Throws CommError.
MembershipOptions prepare_rendezvous(Placement placement);

// The environment variables with which our launchers start a worker.
struct PlaceOnHost {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string rendezvous;  // "10.0.0.1:4711,192.168.0.1:4711"
  std::string token;
  std::string hosts;  // by rank, comma-separated; may be empty
};
std::vector<std::string> place_environment(const PlaceOnHost& place, int listen_fd);

// Addresses of this machine, with a port it listens on, for the other workers: all but loopback, or
// loopback alone if all workers are on this machine.
std::vector<Endpoint> own_endpoints(int port, bool all_on_this_machine);

// The first name of a Slurm node list such as "vm[03-05,9],gpu1".
std::string first_of_nodelist(const std::string& list);

}  // namespace reigen
