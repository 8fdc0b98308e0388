// The agent of host_launch.h: starts and watches one host's workers for a remote launcher.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/process/own_program.h"
#include "dist/launch/hosts/agent_protocol.h"
#include "dist/launch/hosts/host_launch.h"
#include "dist/launch/launch.h"
#include "dist/launch/process_mark.h"
#include "dist/members/parent_pipe.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Time for the workers to save when the launcher is lost.
constexpr milliseconds kTimeWithoutLauncher{20'000};

class Agent {
 public:
  Agent(const std::string& version, LastCheckpoint last_checkpoint, RestoreCopy restore_copy)
      : in_(STDIN_FILENO),
        out_(STDOUT_FILENO),
        last_checkpoint_(std::move(last_checkpoint)),
        restore_copy_(std::move(restore_copy)),
        workers_(output(), {}) {
    for (int fd : {in_.fd(), out_.fd()}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    workers_.also_watch(in_.fd());
    outgoing_ = kAgentGreeting;
    send({{"kind", "hello"}, {"version", version}, {"host", host_name()}});
  }

  void run() {
    while (!ended()) {
      constexpr milliseconds kTick{100};
      workers_.attend(kTick);
      send_checkpoint();
      send_addresses();
      send_ended();
      for (const Json& proof : workers_.take_proofs()) send({{"kind", "proof"}, {"proof", proof}});
      for (const Json& question : workers_.take_questions()) {
        send({{"kind", "question"}, {"question", question}});
      }
      if (!launcher_lost_) exchange();
      if (launcher_lost_) outgoing_.clear();
      if ((launcher_lost_ && !elastic_) || interrupt_requested()) end_soon();
    }
    flush();
  }

 private:
  // Workers of an elastic job outlive their launcher, which may have been on a machine that is
  // gone.
  void exchange() {
    receive();
    if (!write_available(out_, outgoing_)) launcher_lost_ = true;
    if (Clock::now() - received_ > kAgentSilence) launcher_lost_ = true;
    if (!launcher_lost_) return;
    workers_.also_watch(-1);
    workers_.tell(witness_lost_message());
  }

  bool ended() const {
    const bool finished = started_ && !lingers_;
    return !workers_.running() && (finished || launcher_lost_ || interrupt_requested());
  }

  void send(const Json& message) { outgoing_ += encode_message(message); }

  WorkerOutput output() {
    WorkerOutput o;
    o.line = [this](int rank, const std::string& line) {
      send({{"kind", "line"}, {"rank", rank}, {"text", line}});
    };
    o.out_line = [this](int rank, const std::string& line) {
      send({{"kind", "out"}, {"rank", rank}, {"text", line}});
    };
    o.status = [this](int rank, const std::string& text) {
      if (rank == 0) send({{"kind", "status"}, {"rank", rank}, {"text", text}});
    };
    return o;
  }

  void stop(milliseconds limit, int signal_number) {
    // A second signal would end a worker that still saves.
    workers_.stop(std::exchange(stopped_, true) ? 0 : signal_number, limit);
  }

  // No worker outlives its launcher, not even to wait for room on a disk.
  void end_soon() {
    if (std::exchange(ends_soon_, true)) return;
    workers_.end_waits();
    stop(kTimeWithoutLauncher, SIGTERM);  // of an elastic job, the workers on other hosts continue
  }

  void receive() {
    const size_t before = incoming_.size();
    if (!read_available(in_, incoming_, kMostFromMember + 4)) launcher_lost_ = true;
    if (incoming_.size() > before) received_ = Clock::now();
    Json message;
    Decoded decoded = Decoded::kIncomplete;
    while ((decoded = decode_message(incoming_, kMostFromMember, message)) == Decoded::kMessage) {
      const std::string kind = *text_field(message, "kind");
      if (kind == "listen") listen(message);
      if (kind == "start") start(message);
      if (kind == "find_run") find_run(message);
      if (kind == "restore") restore(message);
      if (kind == "find_workers") find_workers(message);
      if (kind == "end") lingers_ = false;
      if (kind == "drain") workers_.stop(SIGTERM);  // they leave, and the others continue
      if (kind == "failed") workers_.note_failure();
      if (kind == "succeeded") workers_.note_success();
      if (kind == "proof") workers_.tell(message.value("proof", Json::object()));
      if (kind == "answer") workers_.tell(message.value("answer", Json::object()));
      if (kind == "stop") {
        stop(milliseconds(message.value("limit", kTimeWithoutLauncher.count())),
             elastic_ ? SIGINT : SIGTERM);
      }
    }
    if (decoded == Decoded::kBroken) launcher_lost_ = true;
  }

  // The launcher starts lost workers again, which ask these about the job.
  void send_addresses() {
    for (const WorkerAddress& address : workers_.take_addresses()) {
      send({{"kind", "listens"},
            {"rank", address.rank},
            {"number", address.number},
            {"at", address.at}});
    }
  }

  void send_ended() {
    for (const WorkerEnd& end : workers_.take_ended()) {
      send_checkpoint();  // the last one counts, too
      send({{"kind", "ended"},
            {"rank", end.rank},
            {"code", end.code},
            {"text", end.error},
            {"joined", end.joined},
            {"writer", end.writer},
            {"joiner", end.joiner},
            {"number", end.number}});
    }
  }

  // With --restarts, on the host of rank 0: the launcher learns of each checkpoint.
  void send_checkpoint() {
    if (watched_run_.empty() || !last_checkpoint_) return;
    const auto step = last_checkpoint_(watched_run_);
    if (step && step != sent_checkpoint_) send({{"kind", "checkpoint"}, {"step", *step}});
    sent_checkpoint_ = step;
  }

  static std::string run_here(const Json& message) {
    std::filesystem::path folder = message.value("folder", "");
    if (!std::filesystem::is_directory(folder)) folder.clear();  // as start() does
    return folder / message.value("run", "");
  }

  void find_run(const Json& message) {
    std::optional<uint64_t> step;
    const std::string run = run_here(message);
    if (last_checkpoint_) step = last_checkpoint_(run);
    std::error_code ignored;
    Json answer = {{"kind", "run"}, {"exists", std::filesystem::exists(run, ignored)}};
    if (step) answer["step"] = *step;
    send(answer);
  }

  void restore(const Json& message) {
    const SshOptions ssh = {message.value("ssh_user", ""), message.value("ssh_port", 0)};
    Json answer = {{"kind", "restored"}};
    try {
      if (restore_copy_) {
        const auto step = restore_copy_(message.value("place", ""), ssh, run_here(message));
        if (step) answer["step"] = *step;
      }
    } catch (const Error& e) {
      answer["text"] = e.what();
      answer["damaged"] = e.code() == ExitCode::kCheckpoint;
    }
    send(answer);
  }

  // Whether workers that an earlier agent started here may still run.
  void find_workers(const Json& message) {
    bool running = false;
    for (const Json& mark : message.value("marks", Json::array())) {
      running = running || may_still_run(mark.get<std::string>());
    }
    send({{"kind", "workers"}, {"running", running}});
  }

  // This host has rank 0: its port is open before any worker starts.
  void listen(const Json& message) {
    const bool all_here = message.value("one_host", false);
    listener_ = listen_on(all_here ? "127.0.0.1" : "", 0);
    Json at = Json::array();
    for (const Endpoint& e : own_endpoints(port_of(listener_), all_here)) at.push_back(text_of(e));
    send({{"kind", "listening"}, {"at", at}, {"port", port_of(listener_)}});
  }

  void start(const Json& message) {
    started_ = true;
    elastic_ = message.value("elastic", false);
    lingers_ = message.value("lingers", false);
    if (elastic_) {
      workers_.set_elastic();
      ignore_hangup();  // of the connection to the launcher
    }
    PlaceOnHost place;
    place.size = message.value("size", 1);
    place.local_size = message.value("workers", 1);
    place.token = message.value("token", "");
    place.rendezvous = message.value("rendezvous", "");
    place.hosts = message.value("hosts", "");
    place.depth = message.value("depth", 1);
    place.join = message.value("join", "");
    place.witness = message.value("witness", "");
    place.may_grow = message.value("may_grow", false);
    const int only = message.value("only", -1);  // one worker of several
    const int first = message.value("first_rank", 0);
    workers_.set_longest_wait(milliseconds(message.value("longest_wait", int64_t{0})));
    std::string folder = message.value("folder", "");
    if (!std::filesystem::is_directory(folder)) {
      send({{"kind", "line"},
            {"rank", first},
            {"text", format("warning: host {} has no folder {}; relative paths start in {}",
                            host_name(), folder, std::filesystem::current_path().string())}});
      folder.clear();
    }
    const std::string run = message.value("run", "");
    if (first == 0 && !run.empty()) watched_run_ = std::filesystem::path(folder) / run;
    for (int local = 0; local < place.local_size; ++local) {
      place.rank = first + local;
      if (only >= 0 && place.rank != only) continue;
      place.local_rank = local;
      ChildSpec spec;
      spec.command = {"reigen"};
      for (const Json& argument : message.value("arguments", Json::array())) {
        spec.command.push_back(argument.get<std::string>());
      }
      spec.file = own_program().file;
      spec.folder = folder;
      const bool first_start = place.rank == 0 && place.join.empty();
      if (first_start) spec.inherited = listener_.fd();
      spec.environment = place_environment(place, spec.inherited);
      if (first_start) {
        for (const Json& entry : message.value("rank0_environment", Json::array())) {
          spec.environment.push_back(entry.get<std::string>());
        }
      }
      if (first_start && message.value("width", -1) >= 0) {
        spec.environment.push_back(format("REIGEN_TERMINAL={}", message.value("width", 0)));
      }
      if (place.join.empty()) {
        workers_.start(place.rank, spec);
      } else {
        workers_.start_joiner(place.rank, spec);
      }
      const auto process = workers_.process_of(place.rank);
      if (process) {
        send({{"kind", "started"}, {"rank", place.rank}, {"mark", process_mark(*process)}});
      }
    }
    listener_.close();
  }

  void flush() {
    const auto deadline = Clock::now() + milliseconds(5'000);
    send_ended();
    while (!outgoing_.empty() && write_available(out_, outgoing_) && Clock::now() < deadline) {
      pollfd writable{out_.fd(), POLLOUT, 0};
      poll(&writable, 1, 100);
    }
  }

  Socket in_;
  Socket out_;
  std::string incoming_;
  std::string outgoing_;
  Clock::time_point received_ = Clock::now();
  bool launcher_lost_ = false;
  bool started_ = false;
  bool lingers_ = false;  // waits without workers: the launcher may start one again
  bool elastic_ = false;
  bool stopped_ = false;
  bool ends_soon_ = false;
  Socket listener_;
  LastCheckpoint last_checkpoint_;
  RestoreCopy restore_copy_;
  std::string watched_run_;  // empty: none
  std::optional<uint64_t> sent_checkpoint_;
  LaunchedWorkers workers_;
};

}  // namespace

void run_host_agent(const std::string& version, const LastCheckpoint& last_checkpoint,
                    const RestoreCopy& restore_copy) {
  try {
    Agent(version, last_checkpoint, restore_copy).run();
  } catch (const Json::exception& e) {
    throw CommError(format("the launcher sent a malformed message: {}", e.what()));
  }
}

}  // namespace reigen
