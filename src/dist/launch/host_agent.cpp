// The agent's side of host_launch.h: one machine's workers, on behalf of a launcher elsewhere.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "dist/launch/agent_talk.h"
#include "dist/launch/host_launch.h"
#include "dist/launch/launch.h"
#include "dist/members/message.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// For workers to save when their launcher is gone.
constexpr Grace kAgentGrace{milliseconds(20'000), milliseconds(20'000), milliseconds(5'000)};

class Agent {
 public:
  explicit Agent(const std::string& version)
      : in_(STDIN_FILENO), out_(STDOUT_FILENO), set_(output(), kAgentGrace) {
    for (int fd : {in_.fd(), out_.fd()}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    set_.also_watch(in_.fd());
    unsent_ = kAgentGreeting;
    say({{"kind", "hello"}, {"version", version}, {"host", host_name()}});
  }

  void run() {
    while (!ended()) {
      constexpr milliseconds kTick{100};
      set_.attend(kTick);
      hear();
      for (const WorkerEnd& end : set_.take_ended()) {
        say({{"kind", "ended"}, {"rank", end.rank}, {"code", end.code}, {"text", end.error}});
      }
      if (!write_available(out_, unsent_)) alone_ = true;
      if (Clock::now() - heard_ > kAgentSilence) alone_ = true;
      if ((alone_ || interrupt_requested()) && !stopped_) stop(SIGTERM);
    }
    flush();
  }

 private:
  bool ended() const { return !set_.running() && (started_ || alone_ || interrupt_requested()); }

  void say(const Json& message) { unsent_ += encode_message(message); }

  WorkerOutput output() {
    WorkerOutput o;
    o.line = [this](int rank, const std::string& line) {
      say({{"kind", "line"}, {"rank", rank}, {"text", line}});
    };
    o.out_line = [this](int rank, const std::string& line) {
      say({{"kind", "out"}, {"rank", rank}, {"text", line}});
    };
    o.status = [this](int rank, const std::string& text) {
      if (rank == 0) say({{"kind", "status"}, {"rank", rank}, {"text", text}});
    };
    return o;
  }

  void stop(int signal_number) {
    stopped_ = true;
    set_.stop(signal_number);
  }

  void hear() {
    const size_t before = unheard_.size();
    if (!read_available(in_, unheard_, kMostFromMember + 4)) alone_ = true;
    if (unheard_.size() > before) heard_ = Clock::now();
    Json message;
    Decoded decoded = Decoded::kIncomplete;
    while ((decoded = decode_message(unheard_, kMostFromMember, message)) == Decoded::kMessage) {
      const std::string kind = *text_field(message, "kind");
      if (kind == "listen") listen(message);
      if (kind == "start") start(message);
      if (kind == "stop") stop(SIGTERM);
    }
    if (decoded == Decoded::kBroken) alone_ = true;
  }

  // This host has rank 0: its port is open before anybody starts.
  void listen(const Json& message) {
    const bool here = message.value("everybody_is_here", false);
    listener_ = listen_on(here ? "127.0.0.1" : "", 0);
    Json at = Json::array();
    for (const Endpoint& e : own_endpoints(port_of(listener_), here)) at.push_back(text_of(e));
    say({{"kind", "listening"}, {"at", at}, {"port", port_of(listener_)}});
  }

  void start(const Json& message) {
    started_ = true;
    PlaceOnHost place;
    place.size = message.value("size", 1);
    place.local_size = message.value("workers", 1);
    place.token = message.value("token", "");
    place.rendezvous = message.value("rendezvous", "");
    place.hosts = message.value("hosts", "");
    const int first = message.value("first_rank", 0);
    std::string folder = message.value("folder", "");
    if (!std::filesystem::is_directory(folder)) {
      say({{"kind", "line"},
           {"rank", first},
           {"text", format("warning: {} has no folder {}; relative paths are in {}", host_name(),
                           folder, std::filesystem::current_path().string())}});
      folder.clear();
    }
    for (int local = 0; local < place.local_size; ++local) {
      place.rank = first + local;
      place.local_rank = local;
      ChildSpec spec;
      spec.command = {"reigen"};
      for (const Json& argument : message.value("arguments", Json::array())) {
        spec.command.push_back(argument.get<std::string>());
      }
      spec.file = "/proc/self/exe";
      spec.folder = folder;
      if (place.rank == 0) spec.inherited = listener_.fd();
      spec.environment = place_environment(place, spec.inherited);
      if (place.rank == 0 && message.value("width", -1) >= 0) {
        spec.environment.push_back(format("REIGEN_TERMINAL={}", message.value("width", 0)));
      }
      set_.start(place.rank, spec);
    }
    listener_.close();
  }

  void flush() {
    const auto deadline = Clock::now() + milliseconds(5'000);
    for (const WorkerEnd& end : set_.take_ended()) {
      say({{"kind", "ended"}, {"rank", end.rank}, {"code", end.code}, {"text", end.error}});
    }
    while (!unsent_.empty() && write_available(out_, unsent_) && Clock::now() < deadline) {
      pollfd writable{out_.fd(), POLLOUT, 0};
      poll(&writable, 1, 100);
    }
  }

  Socket in_;
  Socket out_;
  std::string unheard_;
  std::string unsent_;
  Clock::time_point heard_ = Clock::now();
  bool alone_ = false;  // the launcher is gone
  bool started_ = false;
  bool stopped_ = false;
  Socket listener_;
  LaunchedWorkers set_;
};

}  // namespace

void run_host_agent(const std::string& version) {
  try {
    Agent(version).run();
  } catch (const Json::exception& e) {
    throw CommError(format("the launcher sent something else than an agent expects: {}", e.what()));
  }
}

}  // namespace reigen
