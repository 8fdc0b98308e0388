// The launcher's connections to all hosts of a job (host_launch.h): opened together, with the same
// version of the program on each, and kept alive by heartbeats.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <string>

#include "dist/launch/hosts/host_launch.h"
#include "dist/launch/hosts/program_copy.h"
#include "dist/launch/hosts/remote_host.h"

namespace reigen {

class HostConnections {
 public:
  explicit HostConnections(const HostLaunch& options);

  // By the order of ranks.
  std::list<RemoteHost>& all() { return hosts_; }
  // Throws CommError if a host is not usable; at a restart it is left out.
  void connect();
  // To one host whose connection had ended; its first message is "hello".
  void connect_again(RemoteHost& host);
  // Throws CommError if that host has a different version.
  void check_version(const RemoteHost& host, const Json& hello) const;
  // The error of a connection that ended with that exit status before it was usable.
  std::string cannot_use(const RemoteHost& host, int code) const;

  // Calls `use` for each host, and at a restart leaves out those for which it throws a CommError.
  void for_usable(const std::function<void(RemoteHost&)>& use);
  // From now on expect() waits for so long, for all messages together.
  void allow(std::chrono::milliseconds time) { answer_by_ = RemoteHost::Clock::now() + time; }
  // The next message of that kind; others before it are dropped. Throws CommError.
  Json expect(RemoteHost& host, const std::string& kind);
  // A heartbeat where one is due.
  void beat();
  void send_to_all(const Json& message);
  // Messages since the last call; other lines of the connection are shown.
  static std::vector<Json> receive(RemoteHost& host);

 private:
  void copy_to(const std::string& host, const ProgramCopy& program);

  const HostLaunch& options_;
  std::list<RemoteHost> hosts_;
  std::string binary_;  // on the hosts, quoted
  RemoteHost::Clock::time_point answer_by_;
  RemoteHost::Clock::time_point last_beat_ = RemoteHost::Clock::now();
};

}  // namespace reigen
