#include "dist/launch/hosts/ssh.h"

#include <cstdlib>

namespace reigen {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     const std::string& remote) {
  const char* replaced = std::getenv("REIGEN_SSH");
  std::vector<std::string> command = {replaced == nullptr ? "ssh" : replaced, "-T"};
  for (const char* option : {"BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3"}) {
    command.insert(command.end(), {"-o", option});
  }
  if (options.port > 0) command.insert(command.end(), {"-p", std::to_string(options.port)});
  if (!options.user.empty()) command.insert(command.end(), {"-l", options.user});
  command.insert(command.end(), {host, remote});
  return command;
}

}  // namespace reigen
