// The rule for signals: only the main thread takes SIGINT, SIGTERM and SIGHUP, because only it has
// a signal stack (base/interrupt.cpp). Every other thread is started with them blocked.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace reigen {

// Starts a thread. Reigen starts all of its own threads with this function.
std::thread thread_without_signals(std::function<void()> work);

// For threads that a library starts: new threads inherit the blocked signals of their creator.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace reigen
