// A process that this one started and that never outlives it: the kernel kills it when its parent
// dies, however that happens. Its output comes back through pipes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "dist/members/socket.h"

namespace reigen {

struct ChildSpec {
  std::vector<std::string> command;      // its name, then its arguments
  std::string file;                      // what to run; empty to look for the name in $PATH
  std::vector<std::string> environment;  // "KEY=value", over those of this process
  std::string folder;                    // to run in; empty for this one's
  int inherited = -1;                    // a descriptor the child keeps, under the same number
  bool with_input = false;               // a pipe for its standard input, else nothing to read
};

class ChildProcess {
 public:
  // Call it on the main thread: the kernel ties the child's life to that of the calling thread.
  // Throws IoError.
  explicit ChildProcess(const ChildSpec& spec);
  ~ChildProcess();  // kills its whole process group and waits for it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  const Socket& out() const { return out_; }
  const Socket& err() const { return err_; }
  Socket& in() { return in_; }
  void close_out() { out_.close(); }
  void close_err() { err_.close(); }

  // To the process and whatever it started.
  void signal(int number) const;
  // Its exit status as a shell tells it (128 + signal when it was killed); nothing while it runs.
  std::optional<int> ended();

 private:
  pid_t pid_ = -1;
  Socket out_;
  Socket err_;
  Socket in_;
  std::optional<int> status_;
};

}  // namespace reigen
