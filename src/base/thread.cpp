#include "base/thread.h"

#include <csignal>

#include "base/interrupt.h"

namespace reigen {

std::thread thread_without_signals(std::function<void()> work) {
  const sigset_t signals = interrupt_signals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace reigen
