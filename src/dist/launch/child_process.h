// A child process that never outlives its parent: the kernel kills it when the parent dies for any
// reason. Its output comes back through pipes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "dist/net/socket.h"

namespace reigen {

struct ChildSpec {
  std::vector<std::string> command;      // argv: its name, then its arguments
  std::string file;                      // the executable; empty to search $PATH for the name
  std::vector<std::string> environment;  // "KEY=value", added to the variables of this process
  bool without_secrets = false;          // for a command of the user: it might print them
  std::string folder;                    // working directory; empty for that of this process
  int inherited = -1;                    // a descriptor that the child inherits, same number
  int parent_pipe = -1;                  // a further one
  bool with_input = false;               // standard input is a pipe; /dev/null otherwise
};

class ChildProcess {
 public:
  // Call it on the main thread, or one that outlives the child: the kernel kills the child when the
  // calling thread ends.
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

  // Signals the whole process group.
  void signal(int number) const;
  // The exit status as in a shell (128 + signal if it was killed); nothing while it runs.
  std::optional<int> ended();

 private:
  pid_t pid_ = -1;
  Socket out_;
  Socket err_;
  Socket in_;
  std::optional<int> status_;
};

}  // namespace reigen
