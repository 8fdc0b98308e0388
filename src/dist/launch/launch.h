// How this process was started, and where the others are: the place of a worker in its job.
//
// Recognised, in this order: Reigen's own launchers, torchrun, Open MPI's mpirun, Slurm's srun.
// Nobody has to name a port: our launchers open it before any worker starts, PMIx (mpirun, and srun
// where it is built with it) carries the one rank 0 took, and for the others it follows from what
// the launcher tells every rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/members/membership.h"
#include "dist/members/socket.h"

namespace reigen {

inline constexpr size_t kTokenBytes = 16;

enum class Launcher : uint8_t { kReigen, kTorchrun, kOpenMpi, kSlurm };
const char* name_of(Launcher launcher);

struct Placement {
  Launcher launcher = Launcher::kReigen;
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those on this machine
  int local_size = 1;
  std::vector<Endpoint> rendezvous;  // where it may be; empty where PMIx will say
  std::vector<int> ports;            // rank 0 takes the first that is free; empty for any
  std::string token;                 // empty where PMIx will say
  bool secret = false;               // whether outsiders cannot know the token
  int listen_fd = -1;                // rank 0's port, opened by the launcher
  std::vector<std::string> hosts;    // by rank, where it is known
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Nothing when this process was started by hand. Throws ConfigError when the variables of a
// launcher contradict each other.
std::optional<Placement> detect_launch(const Environment& environment = process_environment);

// Opens rank 0's port and, under PMIx, lets everybody know it; the rest of the options is the
// caller's. Throws CommError.
MembershipOptions meet(Placement placement);

// What our launchers tell a worker, as environment variables.
struct PlaceOnHost {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string rendezvous;  // "10.0.0.1:4711,192.168.0.1:4711"
  std::string token;
  std::string hosts;  // by rank, with commas between; may be empty
};
std::vector<std::string> place_environment(const PlaceOnHost& place, int listen_fd);

// Addresses under which others may reach this machine, for a port it listens on: all but loopback,
// or loopback when nobody is elsewhere.
std::vector<Endpoint> own_endpoints(int port, bool everybody_is_here);

// "vm[03-05,9],gpu1": the first name. Slurm's way of writing lists.
std::string first_of_nodelist(const std::string& list);

}  // namespace reigen
