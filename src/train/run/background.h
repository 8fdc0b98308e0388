// --detach: a run without a terminal, and `reigen attach`, which shows its output.
//
//   RUN/console.log      the output of the run; locked with flock while it is
//   RUN/background.json  its process and host; at its end also exit code and error
#pragma once

#include <functional>
#include <string>

namespace reigen {

// Forks. The parent returns when the child has trained its first step; if the child has ended
// before, the parent throws the child's error. The child runs `work` without a terminal, with its
// output in RUN/console.log, and returns or throws with it: the caller must then end the process.
// No thread may have been started before. Throws ConfigError, and changes no file, while a process
// trains in the run.
void run_in_background(const std::string& run, const std::function<void()>& work);

// Shows RUN/console.log as it grows, until the run ends or Ctrl-C, after which the run continues.
// Where only the launcher of an elastic job has ended, shows RUN/log.txt until its workers end the
// run. Throws ConfigError when no run was started with --detach there, DataError when
// background.json is damaged, CommError when the process has ended, and the error that ended the
// run.
void attach(const std::string& run);

}  // namespace reigen
