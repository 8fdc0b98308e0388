// A function run in a child process: for library code that cannot be interrupted and may abort.
//
// The child inherits all memory and returns bytes. Ctrl-C kills it at once; if it crashes, the
// caller gets an error instead of crashing with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace reigen {

// Sends the child's progress to the parent.
using ReportProgress = std::function<void(uint64_t)>;

// Runs `work` in a child and returns its result. The process must have no other thread at the call:
// one could own a lock at the moment of the fork. `listen` is called after the fork, may start
// threads, and returns the receiver of progress. A std::exception thrown by `work` is rethrown here
// as a ChildError with its message; a crash of the child is a ChildError that describes it. A
// signal kills the child and throws Interrupted.
std::string run_in_child(const std::function<std::string(const ReportProgress&)>& work,
                         const std::function<ReportProgress()>& listen);

struct ChildError {
  std::string message;
  bool died = false;  // the child ended without a result
};

}  // namespace reigen
