#include "base/interrupt.h"

#include <csignal>
#include <ctime>

#include "base/error.h"

namespace reigen {
namespace {

volatile std::sig_atomic_t g_requested = 0;
volatile std::time_t g_first = 0;

// Two signals at once are one request: `timeout` and schedulers send one to the process and one to
// its group. Later, a person who asks again means it.
extern "C" void on_signal(int signal_number) {
  constexpr std::time_t kOneRequest = 2;  // seconds
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (g_requested == 0) {
    g_first = now.tv_sec;
    g_requested = 1;
  } else if (now.tv_sec - g_first >= kOneRequest) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

// oneDNN 2.6 computes with its stack pointer in a heap buffer (oneDNN issue 4845): a signal taken
// on that stack would overwrite what lies below it. So signals have a stack of their own.
void use_own_stack() {
  constexpr size_t kBytes = size_t{1} << 16;
  static char memory[kBytes];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

thread_local int held = 0;

}  // namespace

HoldInterrupts::HoldInterrupts() { ++held; }
HoldInterrupts::~HoldInterrupts() { --held; }

void catch_interrupts() {
  use_own_stack();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  action.sa_mask = interrupt_signals();
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // unless under nohup
  // A closed pipe (`reigen ... | head`) must end as a write error, not as a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // likewise a file at its `ulimit -f`
}

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal_number);
  return set;
}

void ignore_hangup() { std::signal(SIGHUP, SIG_IGN); }

bool interrupt_requested() { return g_requested != 0; }

void check_interrupt() {
  if (held > 0) return;
  if (interrupt_requested()) {
    throw Interrupted("stopped by a signal; unfinished output was removed");
  }
}

}  // namespace reigen
