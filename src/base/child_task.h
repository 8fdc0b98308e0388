// A function run in a child process: for library code that cannot be interrupted and may abort.
//
// The child inherits all memory, works, and hands back bytes. Ctrl-C ends it at once; if it dies,
// the caller gets an error instead of dying with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace reigen {

// Tells the parent how far the child has come.
using ReportProgress = std::function<void(uint64_t)>;

// Runs `work` in a child and returns what it returns. Call it while the process has no other
// thread, which could hold a lock at the moment of the fork; `listen` is called once the child is
// there and may start some, and gives what is to be told of progress. What `work` throws as a
// std::exception comes back as a ChildError with its message; a child that dies, as one that says
// how. Throws Interrupted (and ends the child) on a signal.
std::string run_in_child(const std::function<std::string(const ReportProgress&)>& work,
                         const std::function<ReportProgress()>& listen);

struct ChildError {
  std::string message;
  bool died = false;
};

}  // namespace reigen
