// The child processes of a launcher on one machine: started, watched and ended together.
//
// Their output is split into lines. When one fails, the others get time to notice it, and rank 0
// to save; those that do not end get SIGTERM, and then SIGKILL. A stopped process (SIGSTOP) is
// ended at once. When rank 0 logs that it waits (log_waiting() in base/terminal.h: for room on a
// full disk), it has the time that it names, within a limit, and a grace period to save; then it is
// ended, too. In an elastic job the end of a worker is proven to the others instead, and the job
// has succeeded when its writer has: the others end earlier, and know nothing of the last files. A
// worker that is started while the others train joins them, and is dispensable until it has joined.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "dist/launch/child_process.h"

namespace reigen {

// Splits a worker's stderr or stdout into lines, and follows its status line, which is redrawn. A
// line that is too long is cut; its continuations begin with "... ", so that text in the middle of
// a line is never taken for the tag at the start of one ("error: ", "waiting: ").
class LineSplitter {
 public:
  std::vector<std::string> add(std::string_view bytes);  // the lines that are now complete
  std::vector<std::string> rest();                       // at the end: text without a newline
  // The current status line; empty if there is none.
  const std::string& status() const { return status_; }

 private:
  std::string whole(std::string line);

  std::string pending_;
  std::string status_;
  bool cut_ = false;  // `pending_` continues a line
};

// Callbacks for the output of workers. `rank`: that of start(); of one that has joined a running
// job, its number there.
struct WorkerOutput {
  std::function<void(int rank, const std::string& line)> line;      // of stderr
  std::function<void(int rank, const std::string& line)> out_line;  // of stdout
  std::function<void(int rank, const std::string& text)> status;
};

struct WorkerEnd {
  int rank = -1;
  int code = 0;
  std::string error;  // its last line with "error: ", or the signal that killed it
  // In an elastic job: whether it was in a membership yet, and wrote the run as the rank 0 of its
  // last one.
  bool joined = false;
  bool writer = false;
  bool joiner = false;  // it was started to join a running job
  int number = -1;      // for people: the rank, or that of a joiner in the job that it has joined

  // The job never had it, and so has not lost it.
  bool never_joined() const { return joiner && !joined; }
};

// Where a new process can ask a worker about the elastic job.
struct WorkerAddress {
  int rank = -1;
  int number = -1;  // as in WorkerEnd
  std::string at;
};

// Waiting times before workers are ended by signals.
struct Grace {
  // From the failure of one worker until SIGTERM for rank 0, which may be writing a checkpoint.
  std::chrono::milliseconds after_failure{30'000};
  // The same for the other ranks, which have nothing to save.
  std::chrono::milliseconds others_after_failure{5'000};
  // From stop(), which sends the first signal, until a further SIGTERM: time to save.
  std::chrono::milliseconds after_stop{120'000};
  // The longest wait that rank 0 may ask for: --checkpoint.wait.
  std::chrono::milliseconds longest_wait{600'000};
  // From the end of that wait until SIGTERM: time for a last checkpoint and the report.
  std::chrono::milliseconds after_wait{120'000};
  std::chrono::milliseconds after_term{5'000};  // from that SIGTERM until SIGKILL
};

class LaunchedWorkers {
 public:
  LaunchedWorkers(WorkerOutput output, const Grace& grace);
  ~LaunchedWorkers();  // kills those still running

  // Before the first start(): each worker gets a pipe (dist/members/parent_pipe.h).
  void set_elastic() { elastic_ = true; }
  void start(int rank, const ChildSpec& spec) { start(rank, spec, false); }
  // A worker that joins the others, in place of one that has ended. If it cannot be started, it has
  // ended at once.
  void start_joiner(int rank, const ChildSpec& spec);
  // Reads output and watches the processes for at most so long.
  void attend(std::chrono::milliseconds within);
  // Sends a signal to all workers (0: none), which must then end within `limit`. The signal
  // ends a worker's wait for room.
  void stop(int signal_number, std::chrono::milliseconds limit);
  void stop(int signal_number) { stop(signal_number, grace_.after_stop); }
  void set_longest_wait(std::chrono::milliseconds time) { grace_.longest_wait = time; }
  // A worker that waits is ended at once, and none may wait from now on.
  void end_waits();
  // A worker of this job has failed, here or on a different host.
  void note_failure();
  // The writer of an elastic job has finished the run, here or on a different host.
  void note_success();

  bool running() const;
  // Whether the workers that run are to end, because the job has ended or failed.
  bool ends() const { return failed_ || succeeded_; }
  // The process of the worker with that rank that runs, if one does.
  std::optional<uint64_t> process_of(int rank) const;
  // Whether a worker runs that has not been started to join, or has joined.
  bool members_run() const;
  // The first failure that a worker caused itself; else the first that was the loss of a worker. In
  // an elastic job that of the last writer, if it failed.
  const std::optional<WorkerEnd>& failure() const { return failure_; }
  // The workers that ended since the last call.
  std::vector<WorkerEnd> take_ended();
  // Addresses of workers that have become known since the last call.
  std::vector<WorkerAddress> take_addresses();
  // Proofs that workers have ended, since the last call; the workers here have them already.
  std::vector<Json> take_proofs();
  // Questions of workers to the witness, since the last call.
  std::vector<Json> take_questions();
  // Passes a proof from a different host, or the witness's answer, on to all workers.
  void tell(const Json& message);
  // attend() also returns when this descriptor becomes readable.
  void also_watch(int fd) { watched_ = fd; }

 private:
  struct Worker;
  void start(int rank, const ChildSpec& spec, bool joiner);
  void read_output(Worker& worker);
  void read_pipe(Worker& worker);
  void prove_end(Worker& worker, const std::string& why);
  void show_line(Worker& worker, const std::string& line, bool out);
  void settle(Worker& worker, int code);
  void settle_elastic(Worker& worker, const WorkerEnd& end);
  void enforce();
  void end_one(Worker& worker);
  void limit(Worker& worker, std::chrono::milliseconds time);

  WorkerOutput output_;
  Grace grace_;
  std::list<Worker> workers_;
  std::optional<WorkerEnd> failure_;
  std::vector<WorkerEnd> ended_;
  std::vector<Json> proofs_;
  std::vector<WorkerAddress> addresses_;
  std::vector<Json> questions_;
  int watched_ = -1;
  bool elastic_ = false;
  bool succeeded_ = false;  // the writer of an elastic job has ended in order
  bool may_wait_ = true;
  bool failed_ = false;    // note_failure() was called
  bool enforced_ = false;  // a worker was ended by a signal of enforce()
};

// Whether a worker that ended with `code` may have caused the `earlier` exit code of a different
// one: the loss of a worker is an error, too, and often reported before the lost process is found
// dead.
bool explains(int code, int earlier);

// The time that rank 0 may wait by a line of its stderr; nothing for other lines and ranks.
std::optional<std::chrono::milliseconds> allowed_wait(int rank, const std::string& line,
                                                      const Grace& grace);

// The text of a line "error: no space left", without its tag; nothing for other lines.
std::optional<std::string> error_in(const std::string& line);

}  // namespace reigen
