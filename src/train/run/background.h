// A run that goes on after its terminal is gone, and the way back to it.
//
//   RUN/console.log      what the terminal would have shown
//   RUN/background.json  which process it is, and how it ended
#pragma once

#include <functional>
#include <string>

namespace reigen {

// Starts `work` in a process of its own, in no terminal's session, with its output in
// RUN/console.log, and returns when it has begun to train or has ended. Throws the error it ended
// with. No thread may have been started before.
void run_in_background(const std::string& run, const std::function<void()>& work);

// Shows RUN/console.log as it grows, until the run ends or Ctrl-C, which leaves the run alone.
// Throws ConfigError when nothing was started in the background there, and the error the run ended
// with.
void attach(const std::string& run);

}  // namespace reigen
