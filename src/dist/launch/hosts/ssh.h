// The ssh command that reaches a host.
#pragma once

#include <string>
#include <vector>

namespace reigen {

struct SshOptions {
  std::string user;  // empty for ssh's own choice
  int port = 0;      // 0 for ssh's own choice
};

// `text` as one word of a shell.
std::string shell_quoted(const std::string& text);

// ssh without terminal and password prompts, which notices a cut link and runs `remote` in the
// host's shell. $REIGEN_SSH replaces the command `ssh`.
std::vector<std::string> ssh_command(const SshOptions& options, const std::string& host,
                                     const std::string& remote);

}  // namespace reigen
