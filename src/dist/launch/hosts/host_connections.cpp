#include "dist/launch/hosts/host_connections.h"

#include <poll.h>

#include <csignal>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/process/own_program.h"
#include "base/terminal.h"
#include "dist/launch/hosts/agent_protocol.h"
#include "dist/net/message.h"

namespace reigen {

HostConnections::HostConnections(const HostLaunch& options) : options_(options) {
  for (const HostSlots& slots : options.hosts) hosts_.emplace_back(slots);
}

void HostConnections::for_usable(const std::function<void(RemoteHost&)>& use) {
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    try {
      use(*host);
      ++host;
    } catch (const CommError& e) {
      if (!options_.restart) throw;
      log_warning(format("restart without host {}: {}", host->slots().host, e.what()));
      host = hosts_.erase(host);
    }
  }
  if (hosts_.empty()) throw CommError("no host is usable");
}

void HostConnections::connect() {
  binary_ = shell_quoted(options_.binary.empty() ? own_program().path : options_.binary);
  if (options_.copy_binary) {
    const ProgramCopy copy;
    for_usable([&](RemoteHost& host) { copy_to(host.slots().host, copy); });
    binary_ = copy.path();
  }
  for (RemoteHost& host : hosts_) host.connect(options_.ssh, binary_);
  allow(options_.connect_within);
  for_usable([this](RemoteHost& host) { check_version(host, expect(host, "hello")); });
}

void HostConnections::connect_again(RemoteHost& host) {
  if (options_.copy_binary) copy_to(host.slots().host, ProgramCopy());
  host.connect(options_.ssh, binary_);
}

// Throws CommError if no byte is taken for as long as a connection may take.
void HostConnections::copy_to(const std::string& host, const ProgramCopy& program) {
  ChildSpec spec;
  spec.command = ssh_command(options_.ssh, host, program.receive());
  spec.command.insert(spec.command.begin() + 1, "-C");  // compressed
  spec.with_input = true;
  ChildProcess copy(spec);
  ProgramCopy::Stream program_bytes(program);
  std::string block;
  std::string errors;
  auto progress = Clock::now();
  while (!copy.ended()) {
    check_interrupt();
    beat();
    if (Clock::now() - progress > options_.connect_within) {
      throw CommError(format("cannot copy the program to {}: no progress for {:.3g} s; {}", host,
                             std::chrono::duration<double>(options_.connect_within).count(),
                             errors.empty() ? "check its disk and the connection" : errors));
    }
    if (block.empty() && copy.in().open()) {
      block = program_bytes.next();
      if (block.empty()) copy.in().close();
    }
    pollfd waiting[] = {{copy.in().fd(), POLLOUT, 0}, {copy.err().fd(), POLLIN, 0}};
    poll(waiting, 2, 100);
    const size_t before = block.size();
    if (copy.in().open() && !write_available(copy.in(), block)) copy.in().close();
    if (block.size() < before) progress = Clock::now();
    if (copy.err().open() && !read_available(copy.err(), errors, 1 << 16)) copy.close_err();
  }
  if (copy.ended() != 0) {
    throw CommError(format("cannot copy the program to {}: {}", host, errors));
  }
}

Json HostConnections::expect(RemoteHost& host, const std::string& kind) {
  while (true) {
    check_interrupt();
    const bool late = Clock::now() >= answer_by_;
    const auto code = host.process().ended();
    for (const Json& message : receive(host)) {
      if (text_field(message, "kind") == kind) return message;
    }
    if (code) throw CommError(cannot_use(host, *code));
    if (late) break;
    beat();  // the agents of other hosts wait, too
    pollfd readable{host.process().out().fd(), POLLIN, 0};
    poll(&readable, 1, 50);
  }
  throw CommError(format("host {} did not answer over ssh within {:.3g} s", host.slots().host,
                         std::chrono::duration<double>(options_.connect_within).count()));
}

std::string HostConnections::cannot_use(const RemoteHost& host, int code) const {
  const std::string& name = host.slots().host;
  constexpr int kNotFound = 127;
  constexpr int kNotExecutable = 126;
  constexpr int kSshFailed = 255;
  if (code == kNotFound || code == kNotExecutable) {
    return format(
        "host {} has no program at {}; install it there, set its path with --remote-binary, or "
        "copy it with --copy-binary",
        name, options_.binary.empty() ? own_program().path : options_.binary);
  }
  if (code == kSshFailed) return format("ssh to {} failed: {}", name, host.last_line());
  return format(
      "the program on host {} did not start as an agent of {}; it ended with status {}: "
      "{}",
      name, options_.version, code, host.last_line());
}

void HostConnections::check_version(const RemoteHost& host, const Json& hello) const {
  const std::string version = text_field(hello, "version").value_or("");
  if (version == options_.version) return;
  throw CommError(
      format("host {} runs {}, this host {}; install the same version on all hosts, or copy it "
             "with --copy-binary",
             host.slots().host, version, options_.version));
}

void HostConnections::beat() {
  if (Clock::now() - last_beat_ < kAgentBeat) return;
  last_beat_ = Clock::now();
  send_to_all({{"kind", "beat"}});
}

void HostConnections::send_to_all(const Json& message) {
  for (RemoteHost& host : hosts_) {
    if (!host.done) host.send(message);
  }
}

std::vector<Json> HostConnections::receive(RemoteHost& host) {
  return host.receive([&](const std::string& line) { log_from(host.slots().host, line); });
}

}  // namespace reigen
