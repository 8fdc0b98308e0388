#include "dist/launch/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "config/schema.h"
#include "dist/launch/pmix.h"
#include "dist/launch/secret.h"

namespace reigen {
namespace {

constexpr int kMostWorkers = 1'000'000;
constexpr int kPortsToTry = 16;
constexpr const char* kDepthVariable = "REIGEN_LAUNCH_DEPTH";
constexpr const char* kMayGrowVariable = "REIGEN_MAY_GROW";
constexpr const char* kJoinVariable = "REIGEN_JOIN";
constexpr const char* kWitnessVariable = "REIGEN_WITNESS";

int number(const Environment& environment, const char* name, int least, int most, int otherwise) {
  const auto text = environment(name);
  if (!text) return otherwise;
  try {
    return static_cast<int>(parse_integer(*text, least, most));
  } catch (const ConfigError& e) {
    throw ConfigError(format("environment variable {}={}: {}", name, *text, e.what()));
  }
}

bool has(const Environment& environment, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return environment(name).has_value(); });
}

// Rank and size, in the job and on this machine, from the launcher's variables.
void read_place(const Environment& environment, Placement& p, const char* rank, const char* size,
                const char* local_rank, const char* local_size) {
  p.size = number(environment, size, 1, kMostWorkers, 1);
  p.rank = number(environment, rank, 0, kMostWorkers, 0);
  p.local_rank = number(environment, local_rank, 0, kMostWorkers, 0);
  p.local_size = number(environment, local_size, 1, kMostWorkers, 1);
  if (p.rank >= p.size) {
    throw ConfigError(format("{}={} is too large for {}={}; ranks are 0 to {}", rank, p.rank, size,
                             p.size, p.size - 1));
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  return parts;
}

// A port that all ranks derive from the same variables, and some after it in case it is in use.
void use_ports(Placement& p, const std::string& host, int first) {
  for (int port = first; port < first + kPortsToTry && port < 65536; ++port) {
    p.ports.push_back(port);
    p.rendezvous.push_back({host, port});
  }
}

// Without REIGEN_TOKEN the token is the launcher's name for the job: it rejects connections made by
// mistake, but no attacker; find_secret() replaces it.
void use_token(const Environment& environment, Placement& p, const std::string& name) {
  const auto given = environment("REIGEN_TOKEN");
  p.secret = given.has_value();
  p.token = given.value_or(name);
}

Placement reigen_place(const Environment& environment) {
  Placement p;
  p.launcher = Launcher::kReigen;
  read_place(environment, p, "REIGEN_RANK", "REIGEN_SIZE", "REIGEN_LOCAL_RANK",
             "REIGEN_LOCAL_SIZE");
  p.rendezvous = parse_endpoints(*environment("REIGEN_RENDEZVOUS"));
  use_token(environment, p, "");
  if (p.token.empty())
    throw ConfigError(
        "REIGEN_RANK is set but REIGEN_TOKEN is not; set it to the same random text for every "
        "worker");
  p.listen_fd = number(environment, "REIGEN_LISTEN_FD", 0, 1'000'000, -1);
  p.parent_fd = number(environment, kParentVariable, 0, 1'000'000, -1);
  if (p.parent_fd >= 0) p.witness = environment(kWitnessVariable).value_or("");
  if (p.listen_fd < 0) p.ports = {p.rendezvous.front().port};
  p.hosts = split(environment("REIGEN_HOSTS").value_or(""));
  p.may_grow = environment(kMayGrowVariable).has_value();
  if (const auto at = environment(kJoinVariable)) p.join = parse_endpoints(*at);
  return p;
}

// torchrun's own agent listens on MASTER_PORT, so the rendezvous uses one of the ports after it.
Placement torchrun_place(const Environment& environment) {
  Placement p;
  p.launcher = Launcher::kTorchrun;
  read_place(environment, p, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  constexpr int kDefaultPort = 29500;  // torchrun's
  const int port = environment("MASTER_PORT")
                       ? number(environment, "MASTER_PORT", 1, 65535 - kPortsToTry, 1)
                       : kDefaultPort;
  const std::string host = *environment("MASTER_ADDR");
  use_ports(p, host, port + 1);
  use_token(
      environment, p,
      format("torchrun {} {} {}", host, port, environment("TORCHELASTIC_RUN_ID").value_or("none")));
  return p;
}

Placement open_mpi_place(const Environment& environment) {
  Placement p;
  p.launcher = Launcher::kOpenMpi;
  read_place(environment, p, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  return p;
}

// The tasks of a node in Slurm's notation: "2(x2),1" is 2, 2 and 1. 0 if it is not in the list.
int tasks_of_node(const std::string& text, int node) {
  for (const std::string& part : split(text)) {
    int tasks = 0;
    int nodes = 1;
    if (std::sscanf(part.c_str(), "%d(x%d)", &tasks, &nodes) < 1) return 0;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return 0;
}

Placement slurm_place(const Environment& environment) {
  Placement p;
  p.launcher = Launcher::kSlurm;
  read_place(environment, p, "SLURM_PROCID",
             environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
             "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE");
  // SLURM_NTASKS_PER_NODE is only set if it was an option of srun.
  const auto tasks = environment("SLURM_STEP_TASKS_PER_NODE");
  const int node = number(environment, "SLURM_NODEID", 0, kMostWorkers, 0);
  if (tasks) p.local_size = std::max(1, tasks_of_node(*tasks, node));
  if (environment("PMIX_NAMESPACE")) return p;
  const auto nodes = environment("SLURM_STEP_NODELIST");
  const std::string host = first_of_nodelist(nodes ? *nodes : *environment("SLURM_NODELIST"));
  const std::string job = format("slurm {} {} {}", environment("SLURM_JOB_ID").value_or("0"),
                                 *environment("SLURM_STEP_ID"), getuid());
  constexpr int kFirstPort = 20'000;
  constexpr uint64_t kPorts = 10'000;  // below the kernel's ephemeral ports
  use_ports(p, host, kFirstPort + static_cast<int>(xxh3(job.data(), job.size()) % kPorts));
  use_token(environment, p, job);
  return p;
}

// Replaces the launcher's name for the job, which anyone can guess, by a secret.
void find_secret(Placement& p, const RendezvousNeeds& needs) {
  if (p.secret) return check_secret(p.token, "REIGEN_TOKEN");
  if (!needs.token_file.empty()) {
    p.token = hmac_sha256(read_token_file(needs.token_file), p.token);
  } else if (all_on_this_machine(p)) {
    p.token = hmac_sha256(local_secret(), p.token);
  } else if (needs.insecure) {
    if (p.rank == 0) {
      log_warning(
          "this job has no secret (--insecure): anyone who reaches its port can join it, read its "
          "data and change the model");
    }
    return;
  } else {
    throw ConfigError(format(
        "{} gives the workers no secret, and without one anyone who reaches the job's port can "
        "join it. Set REIGEN_TOKEN to the same random text for all workers (openssl rand "
        "-hex 16), or --token-file to a file of mode 0600 on every host; --insecure trains "
        "without a secret",
        name_of(p.launcher)));
  }
  p.secret = true;
}

Socket open_port(const Placement& p) {
  if (p.listen_fd >= 0) {
    fcntl(p.listen_fd, F_SETFD, FD_CLOEXEC);
    return Socket(p.listen_fd);
  }
  // On several hosts any interface may be the one to the others, until the job has formed.
  const std::string address = all_on_this_machine(p) ? "127.0.0.1" : "";
  if (p.ports.empty()) return listen_on(address, 0);
  std::string why;
  for (int port : p.ports) {
    try {
      return listen_on(address, port);
    } catch (const CommError& e) {
      why = e.what();
    }
  }
  throw CommError(
      format("none of the ports {} to {} is free: {}", p.ports.front(), p.ports.back(), why));
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kReigen:
      return "reigen";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "mpirun";
    case Launcher::kSlurm:
      return "srun";
  }
  return "";
}

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<Placement> detect_launch(const Environment& environment) {
  if (has(environment, {"REIGEN_RANK", "REIGEN_SIZE", "REIGEN_RENDEZVOUS"})) {
    return reigen_place(environment);
  }
  if (has(environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR"})) {
    return torchrun_place(environment);
  }
  if (has(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) {
    return open_mpi_place(environment);
  }
  // A batch script has most of these, too, but SLURM_STEP_ID only under srun.
  if (has(environment, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_NODELIST"})) {
    return slurm_place(environment);
  }
  if (has(environment, {"RANK", "WORLD_SIZE"}) && *environment("WORLD_SIZE") != "1") {
    throw ConfigError(
        format("RANK {} and WORLD_SIZE {} are set but MASTER_ADDR is not: set it to the address of "
               "rank 0, or unset RANK and WORLD_SIZE to train with one worker",
               *environment("RANK"), *environment("WORLD_SIZE")));
  }
  return std::nullopt;
}

bool all_on_this_machine(const Placement& p) {
  if (!p.may_grow && p.local_size >= p.size) return true;
  return !p.rendezvous.empty() &&
         std::all_of(p.rendezvous.begin(), p.rendezvous.end(), [](const Endpoint& e) {
           return e.host == "localhost" || is_loopback(e.host);
         });
}

std::string host_of(const Placement& placement) {
  const auto rank = static_cast<size_t>(placement.rank);
  const bool known = placement.hosts.size() == static_cast<size_t>(placement.size);
  return known ? placement.hosts[rank] : "";
}

Socket take_parent_pipe(const Placement& placement) {
  if (placement.parent_fd < 0) return {};
  fcntl(placement.parent_fd, F_SETFD, FD_CLOEXEC);
  return Socket(placement.parent_fd);
}

MembershipOptions prepare_rendezvous(Placement p, const RendezvousNeeds& needs) {
  MembershipOptions options;
  options.rank = p.rank;
  options.size = p.size;
  options.hosts = p.hosts;
  options.host = host_of(p);
  const bool all_here = all_on_this_machine(p);
  const bool by_pmix = p.rendezvous.empty();
  if (!by_pmix) find_secret(p, needs);
  if (p.rank == 0) options.listener = open_port(p);
  options.parent = take_parent_pipe(p);
  options.witness = p.witness;
  if (all_here) {
    for (Endpoint& e : p.rendezvous) e.host = "127.0.0.1";
  }
  if (by_pmix) {
    std::string published;
    if (p.rank == 0) {
      Json shared = {{"token", random_hex(kTokenBytes)}, {"at", Json::array()}};
      for (const Endpoint& e : own_endpoints(port_of(options.listener), all_here)) {
        shared["at"].push_back(text_of(e));
      }
      published = one_line(shared);
    }
    const Json shared = Json::parse(share_from_rank_0(p.rank, published), nullptr, false);
    if (!shared.is_object())
      throw CommError("PMIx: the text published by rank 0 is not a JSON object");
    for (const Json& at : shared.value("at", Json::array())) {
      p.rendezvous.push_back(parse_endpoints(at.get<std::string>()).front());
    }
    p.token = shared.value("token", "");
    p.secret = true;
  }
  // Rank 0 knows its port; the others try all candidates.
  if (p.rank == 0) {
    const int port = port_of(options.listener);
    std::erase_if(p.rendezvous, [&](const Endpoint& e) { return e.port != port; });
  }
  options.rendezvous = p.rendezvous;
  options.token = p.token;
  options.secret = p.secret;
  return options;
}

std::vector<std::string> place_environment(const PlaceOnHost& place, int listen_fd) {
  std::vector<std::string> variables = {
      format("REIGEN_RANK={}", place.rank),
      format("REIGEN_SIZE={}", place.size),
      format("REIGEN_LOCAL_RANK={}", place.local_rank),
      format("REIGEN_LOCAL_SIZE={}", place.local_size),
      "REIGEN_RENDEZVOUS=" + place.rendezvous,
      "REIGEN_TOKEN=" + place.token,
      "REIGEN_HOSTS=" + place.hosts,
      format("{}={}", kDepthVariable, place.depth),
  };
  if (!place.witness.empty()) variables.push_back(format("{}={}", kWitnessVariable, place.witness));
  if (listen_fd >= 0) variables.push_back(format("REIGEN_LISTEN_FD={}", listen_fd));
  if (place.may_grow) variables.push_back(format("{}=1", kMayGrowVariable));
  if (!place.join.empty()) variables.push_back(format("{}={}", kJoinVariable, place.join));
  return variables;
}

int launch_depth(const Environment& environment) {
  return number(environment, kDepthVariable, 0, kMostWorkers, 0);
}

void check_launch_depth(const Environment& environment) {
  const int depth = launch_depth(environment);
  if (depth == 0) return;
  throw ConfigError(format("a worker cannot start workers: a launcher started this process ({}={})",
                           kDepthVariable, depth));
}

std::vector<Endpoint> own_endpoints(int port, bool all_on_this_machine) {
  if (all_on_this_machine) return {{"127.0.0.1", port}};
  std::vector<Endpoint> endpoints;
  for (const NetworkInterface& i : network_interfaces()) {
    const bool link_local = i.address.starts_with("fe80:") || i.address.starts_with("169.254.");
    if (!is_loopback(i.address) && !link_local) endpoints.push_back({i.address, port});
  }
  if (endpoints.empty()) return own_endpoints(port, true);
  return endpoints;
}

std::string first_of_nodelist(const std::string& list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return list;
  const size_t after = list.find(',', close);
  const size_t suffix = after == std::string::npos ? std::string::npos : after - close - 1;
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(close + 1, suffix);
}

}  // namespace reigen
