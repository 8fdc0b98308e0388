#include "dist/launch/local_launch.h"

#include <csignal>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/process/own_program.h"
#include "base/terminal.h"
#include "dist/launch/launch.h"
#include "dist/launch/secret.h"

namespace reigen {

WorkerOutput show_workers() {
  WorkerOutput output;
  output.line = [](int rank, const std::string& line) { log_from(std::to_string(rank), line); };
  output.out_line = [](int rank, const std::string& line) {
    if (rank == 0) return print(line + "\n");
    log_from(std::to_string(rank), line);
  };
  output.status = [](int rank, const std::string& text) {
    if (rank == 0) show_status(text);
  };
  return output;
}

LaunchResult launch_local(int workers, const std::vector<std::string>& arguments,
                          const Grace& grace, const std::vector<std::string>& rank0_environment,
                          bool elastic, const std::function<void()>& look) {
  check_launch_depth();
  // The port is open before any worker starts: no other program can take it, and no worker waits.
  const Socket listener = listen_on("127.0.0.1", 0);
  PlaceOnHost place;
  place.size = workers;
  place.local_size = workers;
  place.depth = launch_depth() + 1;
  place.token = token_of_new_job();
  place.rendezvous = text_of({"127.0.0.1", port_of(listener)});
  LaunchedWorkers set(show_workers(), grace);
  if (elastic) set.set_elastic();
  for (int rank = 0; rank < workers; ++rank) {
    place.rank = rank;
    place.local_rank = rank;
    ChildSpec spec;
    spec.command = {"reigen"};
    spec.file = own_program().file;
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    if (rank == 0) spec.inherited = listener.fd();
    spec.environment = place_environment(place, spec.inherited);
    if (rank == 0) {
      spec.environment.insert(spec.environment.end(), rank0_environment.begin(),
                              rank0_environment.end());
    }
    if (rank == 0 && stderr_is_terminal()) {
      spec.environment.push_back(format("REIGEN_TERMINAL={}", terminal_width()));
    }
    set.start(rank, spec);
  }
  bool stopped = false;
  while (set.running()) {
    constexpr std::chrono::milliseconds kTick{100};
    set.attend(kTick);
    set.take_proofs();  // there are no other hosts to tell
    if (look) look();
    if (interrupt_requested() && !stopped) {
      stopped = true;
      set.stop(elastic ? SIGINT : SIGTERM);  // SIGTERM drains a worker of an elastic job alone
    }
  }
  show_status("");
  const auto& failure = set.failure();
  if (!failure) return {};
  return {
      .code = failure->code, .rank = failure->rank, .host = host_name(), .error = failure->error};
}

}  // namespace reigen
