#include "base/interrupt.h"

#include <csignal>

#include "base/error.h"

namespace reigen {
namespace {

volatile std::sig_atomic_t g_requested = 0;

extern "C" void on_signal(int) {
  g_requested = 1;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // unless under nohup
  // A closed pipe (`reigen ... | head`) must end as a write error, not as a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // likewise a file at its `ulimit -f`
}

void ignore_hangup() { std::signal(SIGHUP, SIG_IGN); }

bool interrupt_requested() { return g_requested != 0; }

void check_interrupt() {
  if (interrupt_requested()) {
    throw Interrupted("stopped by a signal; unfinished output was removed");
  }
}

}  // namespace reigen
