// The child processes of a launcher on one machine: started, watched and ended together.
//
// Their output is split into lines. When one fails, the others get time to notice and to save;
// those that do not end get SIGTERM, and then SIGKILL.
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

// Splits a worker's stderr or stdout into lines, and follows its status line, which is redrawn.
class LineSplitter {
 public:
  std::vector<std::string> add(std::string_view bytes);  // the lines that are now complete
  std::vector<std::string> rest();                       // at the end: text without a newline
  // The current status line; empty if there is none.
  const std::string& status() const { return status_; }

 private:
  std::string pending_;
  std::string status_;
};

// Callbacks for the output of workers.
struct WorkerOutput {
  std::function<void(int rank, const std::string& line)> line;      // of stderr
  std::function<void(int rank, const std::string& line)> out_line;  // of stdout
  std::function<void(int rank, const std::string& text)> status;
};

struct WorkerEnd {
  int rank = -1;
  int code = 0;
  std::string error;  // its last line with "error: ", or the signal that killed it
};

// Waiting times before workers are ended by signals.
struct Grace {
  std::chrono::milliseconds after_failure{30'000};  // of one worker, until SIGTERM for the others
  std::chrono::milliseconds after_stop{120'000};    // from stop() until SIGTERM: time to save
  std::chrono::milliseconds after_term{10'000};     // from SIGTERM until SIGKILL
};

class LaunchedWorkers {
 public:
  LaunchedWorkers(WorkerOutput output, const Grace& grace);
  ~LaunchedWorkers();  // kills those still running

  void start(int rank, const ChildSpec& spec);
  // Reads output and watches the processes for at most so long.
  void attend(std::chrono::milliseconds within);
  // Sends a signal to all workers, which must then end.
  void stop(int signal_number);

  bool running() const;
  // The first failure that a worker caused itself; else the first that was the loss of a worker.
  const std::optional<WorkerEnd>& failure() const { return failure_; }
  // The workers that ended since the last call.
  std::vector<WorkerEnd> take_ended();
  // attend() also returns when this descriptor becomes readable.
  void also_watch(int fd) { watched_ = fd; }

 private:
  struct Worker;
  void read_output(Worker& worker);
  void show_line(Worker& worker, const std::string& line, bool out);
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

// Whether a worker that ended with `code` may have caused the `earlier` exit code of a different
// one: the loss of a worker is an error, too, and often reported before the lost process is found
// dead.
bool explains(int code, int earlier);

// The text of a line "error: no space left", without colour and tag; nothing for other lines.
std::optional<std::string> error_in(const std::string& line);

}  // namespace reigen
