// The workers of one machine: started together, watched together, ended together.
//
// Their output is taken apart into lines. When one fails, the others have a while to notice and to
// tidy up; what does not end by itself is asked, and then made to.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/launch/child_process.h"

namespace reigen {

// Bytes of a worker's stderr or stdout as lines, and as the status line that replaces itself.
class LineSplitter {
 public:
  std::vector<std::string> add(std::string_view bytes);  // the lines that are now complete
  std::vector<std::string> rest();                       // what has no end of line, at the end
  // What the last line of a terminal would show now; nothing while no status is up.
  const std::string& status() const { return status_; }

 private:
  std::string pending_;
  std::string status_;
};

// What a worker said or how it ended, for whoever shows it.
struct WorkerOutput {
  std::function<void(int rank, const std::string& line)> line;      // of stderr
  std::function<void(int rank, const std::string& line)> out_line;  // of stdout
  std::function<void(int rank, const std::string& text)> status;
};

struct WorkerEnd {
  int rank = -1;
  int code = 0;
  std::string error;  // its last line that says "error: ", or how it was killed
};

struct Grace {
  std::chrono::milliseconds after_failure{30'000};  // for the others to notice and to save
  std::chrono::milliseconds after_stop{120'000};    // for everybody to save
  std::chrono::milliseconds after_term{10'000};     // then they are killed
};

class LaunchedWorkers {
 public:
  LaunchedWorkers(WorkerOutput output, const Grace& grace);
  ~LaunchedWorkers();  // kills what is left

  void start(int rank, const ChildSpec& spec);
  // Hears and watches for at most so long.
  void attend(std::chrono::milliseconds within);
  // Passes a signal on, once; everybody is expected to end.
  void stop(int signal_number);

  bool running() const;
  // The first that failed by itself, or else the first that lost another; nothing while all is
  // well.
  const std::optional<WorkerEnd>& failure() const { return failure_; }
  // Those that ended since the last call.
  std::vector<WorkerEnd> take_ended();
  // Waits in attend() end when this can be read, too.
  void also_watch(int fd) { watched_ = fd; }

 private:
  struct Worker;
  void hear(Worker& worker);
  void take(Worker& worker, const std::string& line, bool out);
  void settle(Worker& worker, int code);
  void enforce();

  WorkerOutput output_;
  Grace grace_;
  std::list<Worker> workers_;
  std::optional<WorkerEnd> failure_;
  std::vector<WorkerEnd> ended_;
  int watched_ = -1;
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> ask_at_;   // SIGTERM
  std::optional<Clock::time_point> kill_at_;  // SIGKILL
};

// Whether a worker that ended with `code` may be why another one ended `earlier`: to lose a worker
// is an error too, and often told before the lost one is found dead.
bool explains(int code, int earlier);

// "error: no space left" without colour and tag, when the line is one.
std::optional<std::string> error_in(const std::string& line);

}  // namespace reigen
