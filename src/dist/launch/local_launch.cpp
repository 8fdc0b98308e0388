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
#include "dist/launch/worker_restarts.h"
#include "dist/members/parent_pipe.h"

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

namespace {

class LocalJob {
 public:
  explicit LocalJob(const LocalLaunch& options)
      : options_(options),
        set_(show_workers(), options.grace),
        restarts_(options.elastic ? options.restarts : nullptr) {
    if (!options.elastic) return;
    set_.set_elastic();
    place_.witness = new_witness_id();
  }

  void start() {
    // The port is open before any worker starts: no other program can take it, and none waits.
    const Socket listener = listen_on("127.0.0.1", 0);
    place_.size = place_.local_size = options_.workers;
    place_.depth = launch_depth() + 1;
    place_.token = token_of_new_job();
    place_.rendezvous = text_of({"127.0.0.1", port_of(listener)});
    for (int rank = 0; rank < options_.workers; ++rank) {
      ChildSpec spec = spec_of(rank, rank == 0 ? listener.fd() : -1);
      if (rank == 0) {
        spec.environment.insert(spec.environment.end(), options_.rank0_environment.begin(),
                                options_.rank0_environment.end());
      }
      if (rank == 0 && stderr_is_terminal()) {
        spec.environment.push_back(format("REIGEN_TERMINAL={}", terminal_width()));
      }
      set_.start(rank, spec);
    }
  }

  void attend() {
    bool stopped = false;
    while (set_.running()) {
      constexpr std::chrono::milliseconds kTick{100};
      set_.attend(kTick);
      set_.take_proofs();  // there are no other hosts to tell
      for (const Json& question : set_.take_questions()) {
        if (const auto answer = answer_of(witness_, question)) set_.tell(*answer);
      }
      if (options_.look) options_.look();
      if (interrupt_requested() && !stopped) {
        stopped = true;
        restarts_.end();
        // SIGTERM drains a worker of an elastic job alone.
        set_.stop(options_.elastic ? SIGINT : SIGTERM);
      }
      start_again();
    }
  }

  LaunchResult result() const {
    const auto& failure = set_.failure();
    if (!failure) return {};
    return {
        .code = failure->code, .rank = failure->rank, .host = host_name(), .error = failure->error};
  }

 private:
  ChildSpec spec_of(int rank, int listener) {
    place_.rank = place_.local_rank = rank;
    ChildSpec spec;
    spec.command = {"reigen"};
    spec.file = own_program().file;
    spec.command.insert(spec.command.end(), options_.arguments.begin(), options_.arguments.end());
    spec.inherited = listener;
    spec.environment = place_environment(place_, listener);
    return spec;
  }

  // Workers of an elastic job that were lost.
  void start_again() {
    const auto now = WorkerRestarts::Clock::now();
    for (const WorkerAddress& address : set_.take_addresses()) restarts_.learn_address(address);
    for (const WorkerEnd& end : set_.take_ended()) {
      if (set_.ends()) restarts_.end();
      const std::string text = restarts_.after(end, host_name(), now);
      if (!text.empty()) log_warning(text);
    }
    if (!set_.members_run()) return set_.note_failure();  // there is no job to join
    for (const int rank : restarts_.due(now)) {
      place_.join = restarts_.addresses();
      set_.start_joiner(rank, spec_of(rank, -1));
    }
  }

  const LocalLaunch& options_;
  PlaceOnHost place_;
  LaunchedWorkers set_;
  Witness witness_;
  WorkerRestarts restarts_;
};

}  // namespace

LaunchResult launch_local(const LocalLaunch& launch) {
  check_launch_depth();
  LocalJob job(launch);
  job.start();
  job.attend();
  show_status("");
  return job.result();
}

}  // namespace reigen
