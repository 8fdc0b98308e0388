#include "dist/members/continue_request.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr int kSignal = SIGUSR1;

sigset_t continue_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, kSignal);
  return set;
}

// "SigBlk:" in /proc/PID/status: a mask of the main thread in hexadecimal.
bool blocks_signal(pid_t process) {
  constexpr std::string_view kField = "SigBlk:\t";
  std::ifstream status(format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kField)) continue;
    uint64_t mask = 0;
    std::from_chars(line.data() + kField.size(), line.data() + line.size(), mask, 16);
    return (mask >> (kSignal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace

void accept_continue_requests() {
  const sigset_t set = continue_signal();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool continue_requested() {
  const sigset_t set = continue_signal();
  const timespec now = {};
  return sigtimedwait(&set, nullptr, &now) == kSignal;
}

void request_continue(pid_t process) {
  if (!blocks_signal(process)) {
    throw ConfigError(format(
        "process {} is not a worker of an elastic job on this host; the message of a paused worker "
        "names its host and process",
        process));
  }
  if (kill(process, kSignal) != 0) {
    throw ConfigError(format("cannot signal process {}: {}", process, errno_text(errno)));
  }
}

}  // namespace reigen
