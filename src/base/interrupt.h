// Ctrl-C, SIGTERM and SIGHUP as a flag that long work polls, so that it can clean up before it
// ends.
//
// The first signal sets the flag; a second one, seconds later, ends the process at once. Unfinished
// output is never under its final name.
#pragma once

#include <csignal>

namespace reigen {

void catch_interrupts();

// SIGINT, SIGTERM and SIGHUP. Threads must be started with them blocked (base/thread.h): only the
// main thread has a signal stack.
sigset_t interrupt_signals();

// A write to a closed pipe or connection fails with EPIPE instead of ending the process:
// connections between workers and `reigen ... | head` need it. Part of catch_interrupts().
void ignore_broken_pipes();

// From now on SIGHUP is ignored: a run of days outlives its login session.
void ignore_hangup();

bool interrupt_requested();

// Sets the flag as a first signal does, on any thread; a signal that follows does not end the
// process at once.
void request_interrupt();

// Whether all signals so far were SIGTERM, as a host sends it that is shut down, or
// request_interrupt(): they concern this process alone. SIGINT and SIGHUP come from a user who
// wants the whole job to end.
bool only_this_process_is_to_end();

// Throws Interrupted after a signal. Cheap enough to call for every few hundred lines of text.
void check_interrupt();

// While one exists on this thread, check_interrupt() does not throw: for collective work that no
// worker may leave alone.
class PostponeInterrupts {
 public:
  PostponeInterrupts();
  ~PostponeInterrupts();
  PostponeInterrupts(const PostponeInterrupts&) = delete;
  PostponeInterrupts& operator=(const PostponeInterrupts&) = delete;
};

}  // namespace reigen
