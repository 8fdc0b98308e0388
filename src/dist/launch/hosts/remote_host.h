// The launcher's connection to the agent on a host (host_launch.h).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "dist/launch/child_process.h"
#include "dist/launch/hosts/host_launch.h"
#include "dist/launch/launched_workers.h"

namespace reigen {

class RemoteHost {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RemoteHost(const HostSlots& slots) : slots_(slots) {}

  // `binary`: of the program there, quoted for its shell. Again when the connection has ended.
  void connect(const SshOptions& ssh, const std::string& binary);
  void send(const Json& message);
  // Messages since the last call. `own` gets the lines of ssh and of the remote shell.
  std::vector<Json> receive(const std::function<void(const std::string&)>& own);

  ChildProcess& process() { return *process_; }
  void disconnect();  // at once
  const HostSlots& slots() const { return slots_; }
  int first_rank() const { return first_rank_; }
  void set_first_rank(int rank) { first_rank_ = rank; }
  const std::string& last_line() const { return last_line_; }
  bool owns(int rank) const { return rank >= first_rank_ && rank < first_rank_ + slots_.workers; }

  // A worker that was started there, and of which no end is known.
  struct Running {
    std::string mark;    // of its process (process_mark.h); empty until the agent has sent it
    int number = -1;     // for people
    bool joins = false;  // it was started to join the job, and does not train yet
  };
  std::map<int, Running> running;  // by rank
  bool done = false;               // all workers have ended, or the connection is lost
  bool removed = false;            // from the hosts file: its workers leave

  // With --restarts of an elastic job, once the connection is lost (host_returns.h).
  int tries = 0;                               // to connect again
  std::optional<Clock::time_point> ask_at;     // the next one
  std::optional<Clock::time_point> answer_by;  // limit of the present one
  std::set<int> wanted;                        // ranks to be started when the host returns

  // Of the connection, if the agent does not end before; a worker that waits (launched_workers.h)
  // sets the first, which counts then.
  std::optional<Clock::time_point> waits_until;
  std::optional<Clock::time_point> end_at;

 private:
  HostSlots slots_;
  int first_rank_ = 0;
  std::unique_ptr<ChildProcess> process_;
  bool greeted_ = false;
  std::string incoming_;
  std::string outgoing_;
  LineSplitter err_;
  std::string last_line_;
};

}  // namespace reigen
