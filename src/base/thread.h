// How threads are started: with signals blocked, and without subnormal numbers.
//
// The rule for signals: only the main thread takes SIGINT, SIGTERM and SIGHUP, because only it has
// a signal stack (base/interrupt.cpp). Every other thread is started with them blocked.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace reigen {

// The name of the thread that reads and packs batches, for top and ps; the sampler finds it by
// name.
inline constexpr const char* kInputThread = "reigen-input";

// Starts a thread. Reigen starts all of its own threads with this function.
std::thread thread_without_signals(std::function<void()> work);

// Results and operands below 1.2e-38 count as zero from here on, in this thread and in those it
// starts. Processors compute with such subnormal numbers several times slower, and training does
// not need them: they come from gradients that vanish, and from moments of pieces that are rare.
void flush_subnormals();

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
