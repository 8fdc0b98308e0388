// Ctrl-C, SIGTERM and a closed terminal as a flag that long work looks at, so that it can tidy up
// before it ends.
//
// The first signal sets the flag; another one, seconds later, ends the process at once, because a
// person who presses Ctrl-C again means it. Work left half done is never under its final name.
#pragma once

#include <csignal>

namespace reigen {

void catch_interrupts();

// Those that are caught. Threads that call matrix libraries should be made with them blocked: only
// the main thread has a stack for them (see interrupt.cpp).
sigset_t interrupt_signals();

// From now on a closed terminal is nothing to stop for: a run that takes a day outlives its login.
void ignore_hangup();

bool interrupt_requested();

// Throws Interrupted once a signal has arrived. Cheap enough to call for every few hundred lines.
void check_interrupt();

// While one exists on this thread, check_interrupt() lets the signal wait: for work that several
// processes do together and none may leave alone.
class HoldInterrupts {
 public:
  HoldInterrupts();
  ~HoldInterrupts();
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
};

}  // namespace reigen
