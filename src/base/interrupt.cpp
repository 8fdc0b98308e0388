#include "base/interrupt.h"

#include <atomic>
#include <csignal>
#include <ctime>

#include "base/error.h"
#include "base/leave_request.h"

namespace reigen {
namespace {

volatile std::sig_atomic_t g_requested = 0;
volatile std::sig_atomic_t g_for_all = 0;  // a signal other than SIGTERM
volatile std::time_t g_first = 0;
std::atomic<bool> g_asked = false;  // request_interrupt() was called

// Two signals within kOneRequest are one request: `timeout` and schedulers send one to the process
// and one to its group.
extern "C" void on_signal(int signal_number) {
  constexpr std::time_t kOneRequest = 2;  // seconds
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (signal_number != SIGTERM) g_for_all = 1;
  if (g_requested == 0) {
    g_first = now.tv_sec;
    g_requested = 1;
  } else if (now.tv_sec - g_first >= kOneRequest) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

// oneDNN 2.6 computes with its stack pointer in a heap buffer (oneDNN issue 4845): a signal handler
// on that stack would overwrite the memory below it. So signals get an alternate stack.
void use_signal_stack() {
  constexpr size_t kBytes = size_t{1} << 16;
  static char memory[kBytes];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

thread_local int postponed = 0;  // PostponeInterrupts alive on this thread

}  // namespace

PostponeInterrupts::PostponeInterrupts() { ++postponed; }
PostponeInterrupts::~PostponeInterrupts() { --postponed; }

void catch_interrupts() {
  use_signal_stack();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  action.sa_mask = interrupt_signals();
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // unless under nohup
  ignore_broken_pipes();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that reaches `ulimit -f` is a write error, too
}

void ignore_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal_number);
  return set;
}

void ignore_hangup() { std::signal(SIGHUP, SIG_IGN); }

bool interrupt_requested() { return g_requested != 0 || g_asked; }

bool only_this_process_is_to_end() { return interrupt_requested() && g_for_all == 0; }

void request_interrupt() { g_asked = true; }

void check_interrupt() {
  if (postponed > 0) return;
  if (interrupt_requested()) {
    throw Interrupted("stopped by a signal; unfinished output was removed");
  }
}

}  // namespace reigen
