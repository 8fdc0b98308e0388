#include "dist/launch/launched_workers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "dist/launch/launch.h"
#include "dist/members/parent_pipe.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kRedraw = "\r\x1b[K";  // base/terminal.cpp begins a status line with it
constexpr size_t kMostOfALine = size_t{64} << 10;
constexpr size_t kMostOfAnError = 4000;  // all workers of an elastic job send each other's
constexpr int kKilledBase = 128;

std::string after_redraw(const std::string& text) {
  const size_t last = text.rfind(kRedraw);
  std::string shown = last == std::string::npos ? text : text.substr(last + kRedraw.size());
  if (shown.ends_with('\r')) shown.pop_back();
  return shown;
}

std::string killed_text(int code) {
  return format("was killed by signal {} ({})", code - kKilledBase, strsignal(code - kKilledBase));
}

}  // namespace

std::vector<std::string> LineSplitter::add(std::string_view bytes) {
  pending_ += bytes;
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(whole(after_redraw(pending_.substr(begin, end - begin))));
    cut_ = false;
  }
  pending_.erase(0, begin);
  if (pending_.find(kRedraw) != std::string::npos) {
    status_ = after_redraw(pending_);
    pending_ = status_;
  }
  if (pending_.size() > kMostOfALine) {
    lines.push_back(whole(std::move(pending_)));
    pending_.clear();
    cut_ = true;
  }
  return lines;
}

std::string LineSplitter::whole(std::string line) {
  return cut_ ? "... " + std::move(line) : std::move(line);
}

std::vector<std::string> LineSplitter::rest() {
  std::vector<std::string> lines;
  // A status line is not passed on.
  if (pending_ != status_) lines.push_back(whole(std::move(pending_)));
  pending_.clear();
  status_.clear();
  return lines;
}

bool explains(int code, int earlier) {
  constexpr int kComm = static_cast<int>(ExitCode::kComm);
  return earlier == kComm && code != kComm && code != 0;
}

std::optional<std::chrono::milliseconds> allowed_wait(int rank, const std::string& line,
                                                      const Grace& grace) {
  const auto asked = waiting_limit(line);
  if (rank != 0 || !asked) return std::nullopt;
  return std::min<std::chrono::milliseconds>(*asked, grace.longest_wait);
}

std::optional<std::string> error_in(const std::string& line) {
  constexpr std::string_view kTag = "error: ";
  if (!line.starts_with(kTag)) return std::nullopt;
  return line.substr(kTag.size());
}

struct LaunchedWorkers::Worker {
  int rank = -1;
  std::unique_ptr<ChildProcess> process = {};
  Socket pipe = {};  // its memberships come up, proofs go down; not open unless the job is elastic
  std::string from_pipe;
  std::string to_pipe;
  std::optional<Json> record;  // the last message with its memberships
  LineSplitter err;
  LineSplitter out;
  std::string shown_status;
  std::string error;
  // While it waits for room on a full disk: the end of that wait, with the grace period.
  std::optional<Clock::time_point> waits_until;
  bool joiner = false;  // started to join a running job
  bool done = false;
  std::optional<Clock::time_point> term_at;
  std::optional<Clock::time_point> kill_at;

  bool has_joined() const { return !joiner || record; }
  // Its number in messages for people. That of the place where it was started belongs to the
  // worker before.
  int shown() const { return joiner && record ? number_of(*record).value_or(rank) : rank; }
};

LaunchedWorkers::LaunchedWorkers(WorkerOutput output, const Grace& grace)
    : output_(std::move(output)), grace_(grace) {}

LaunchedWorkers::~LaunchedWorkers() = default;

void LaunchedWorkers::start(int rank, const ChildSpec& spec, bool joiner) {
  Worker worker{.rank = rank, .joiner = joiner};
  if (elastic_) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      throw IoError(format("cannot make a pair of sockets: {}", errno_text(errno)));
    }
    worker.pipe = Socket(ends[0]);
    const Socket of_worker(ends[1]);
    ChildSpec with_pipe = spec;
    with_pipe.parent_pipe = of_worker.fd();
    with_pipe.environment.push_back(format("{}={}", kParentVariable, of_worker.fd()));
    worker.process = std::make_unique<ChildProcess>(with_pipe);
  } else {
    worker.process = std::make_unique<ChildProcess>(spec);
  }
  workers_.push_back(std::move(worker));
}

void LaunchedWorkers::start_joiner(int rank, const ChildSpec& spec) {
  try {
    start(rank, spec, true);
  } catch (const IoError& e) {
    ended_.push_back({.rank = rank,
                      .code = static_cast<int>(ExitCode::kComm),  // as any joiner that did not join
                      .error = e.what(),
                      .joiner = true,
                      .number = rank});
  }
}

bool LaunchedWorkers::running() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return !w.done; });
}

std::optional<uint64_t> LaunchedWorkers::process_of(int rank) const {
  for (const Worker& worker : workers_) {
    if (!worker.done && worker.rank == rank) return static_cast<uint64_t>(worker.process->pid());
  }
  return std::nullopt;
}

bool LaunchedWorkers::members_run() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& w) { return !w.done && w.has_joined(); });
}

void LaunchedWorkers::limit(Worker& worker, std::chrono::milliseconds time) {
  const auto latest = Clock::now() + time;
  worker.term_at = worker.term_at ? std::min(*worker.term_at, latest) : latest;
}

void LaunchedWorkers::stop(int signal_number, std::chrono::milliseconds time) {
  for (Worker& worker : workers_) {
    if (signal_number != 0) {
      worker.process->signal(signal_number);
      worker.process->signal(SIGCONT);  // a stopped process handles a signal when it continues
      worker.waits_until.reset();
    }
    limit(worker, time);
  }
}

void LaunchedWorkers::end_waits() {
  may_wait_ = false;
  for (Worker& worker : workers_) {
    if (worker.waits_until) worker.term_at = Clock::now();
    worker.waits_until.reset();
  }
}

void LaunchedWorkers::note_failure() {
  if (std::exchange(failed_, true)) return;
  for (Worker& worker : workers_) {
    const bool first = worker.rank == 0 && !worker.joiner;
    limit(worker, first ? grace_.after_failure : grace_.others_after_failure);
  }
}

std::vector<WorkerAddress> LaunchedWorkers::take_addresses() {
  return std::exchange(addresses_, {});
}

std::vector<Json> LaunchedWorkers::take_proofs() { return std::exchange(proofs_, {}); }

std::vector<Json> LaunchedWorkers::take_questions() { return std::exchange(questions_, {}); }

void LaunchedWorkers::tell(const Json& message) {
  for (Worker& worker : workers_) {
    if (worker.done || !worker.pipe.open()) continue;
    worker.to_pipe += encode_message(message);
    write_available(worker.pipe, worker.to_pipe);  // a pipe that is closed is found so by a read
  }
}

// Keeps the last record, and sends what waits.
void LaunchedWorkers::read_pipe(Worker& worker) {
  if (!worker.pipe.open()) return;
  const bool open = read_available(worker.pipe, worker.from_pipe, kMostFromMember + 4);
  Json message;
  while (decode_message(worker.from_pipe, kMostFromMember, message) == Decoded::kMessage) {
    if (text_field(message, "kind") == "record") worker.record = message;
    if (is_question(message)) questions_.push_back(message);
    if (const auto at = address_in(message))
      addresses_.push_back({worker.rank, worker.shown(), *at});
  }
  if (!open || !write_available(worker.pipe, worker.to_pipe)) worker.pipe.close();
}

void LaunchedWorkers::prove_end(Worker& worker, const std::string& why) {
  const auto proof = worker.record ? end_message(*worker.record, why) : std::nullopt;
  if (!proof) return;  // it was in no membership yet
  tell(*proof);
  proofs_.push_back(*proof);
}

std::vector<WorkerEnd> LaunchedWorkers::take_ended() { return std::exchange(ended_, {}); }

void LaunchedWorkers::attend(std::chrono::milliseconds within) {
  std::vector<pollfd> waiting;
  if (watched_ >= 0) waiting.push_back({watched_, POLLIN, 0});
  for (const Worker& worker : workers_) {
    for (int fd : {worker.process->out().fd(), worker.process->err().fd(), worker.pipe.fd()}) {
      if (fd >= 0) waiting.push_back({fd, POLLIN, 0});
    }
  }
  poll(waiting.data(), waiting.size(), static_cast<int>(within.count()));
  for (Worker& worker : workers_) {
    if (worker.done) continue;
    const auto code = worker.process->ended();  // before reading, so that no output is missed
    read_output(worker);
    read_pipe(worker);
    if (code) settle(worker, *code);
  }
  enforce();
}

void LaunchedWorkers::read_output(Worker& worker) {
  std::string bytes;
  constexpr size_t kMost = size_t{1} << 20;
  ChildProcess& process = *worker.process;
  if (process.err().open() && !read_available(process.err(), bytes, kMost)) process.close_err();
  for (const auto& line : worker.err.add(bytes)) show_line(worker, line, false);
  bytes.clear();
  if (process.out().open() && !read_available(process.out(), bytes, kMost)) process.close_out();
  for (const auto& line : worker.out.add(bytes)) show_line(worker, line, true);
  if (worker.err.status() != worker.shown_status) {
    worker.shown_status = worker.err.status();
    if (output_.status) output_.status(worker.shown(), worker.shown_status);
  }
}

void LaunchedWorkers::show_line(Worker& worker, const std::string& line, bool out) {
  if (const auto error = error_in(line); error && !out)
    worker.error = error->substr(0, kMostOfAnError);
  const auto wait = out ? std::nullopt : allowed_wait(worker.shown(), line, grace_);
  if (wait && may_wait_) {
    worker.waits_until = Clock::now() + *wait + grace_.after_wait;
  }
  const auto& show = out ? output_.out_line : output_.line;
  if (show) show(worker.shown(), line);
}

void LaunchedWorkers::settle(Worker& worker, int code) {
  for (const auto& line : worker.err.rest()) show_line(worker, line, false);
  for (const auto& line : worker.out.rest()) show_line(worker, line, true);
  worker.done = true;
  WorkerEnd end{.rank = worker.rank,
                .code = code,
                .error = worker.error,
                .joiner = worker.joiner,
                .number = worker.shown()};
  if (code > kKilledBase && end.error.empty()) end.error = killed_text(code);
  if (code != 0 && end.error.empty()) end.error = format("exited with status {}", code);
  if (worker.record) {
    end.joined = true;
    end.writer = is_writer(*worker.record);
  }
  if (end.never_joined()) {
    ended_.push_back(std::move(end));
    return;
  }
  if (code != 0 && (!failure_ || (!enforced_ && explains(code, failure_->code)))) failure_ = end;
  if (elastic_) settle_elastic(worker, end);
  // A worker that was in no membership yet leaves the others waiting for it.
  if (code != 0 && !end.joined) note_failure();
  ended_.push_back(std::move(end));
}

// The others continue without it, unless it has finished the run. Only the writer can tell: the
// others end while it still writes the last checkpoint and the report. A failure of the last writer
// counts for more than the earlier losses, from which the job had recovered.
void LaunchedWorkers::settle_elastic(Worker& worker, const WorkerEnd& end) {
  prove_end(worker, end.error.empty() ? "has ended" : end.error);
  constexpr int kInterrupted = static_cast<int>(ExitCode::kInterrupted);
  const bool stopped = failure_ && failure_->code == kInterrupted;  // asked for by the user
  if (end.code == kInterrupted || (end.code != 0 && end.writer && !stopped)) failure_ = end;
  if (end.code == 0 && end.writer) note_success();
  if (succeeded_) failure_.reset();
}

void LaunchedWorkers::note_success() {
  if (std::exchange(succeeded_, true)) return;
  for (Worker& worker : workers_) {
    limit(worker, grace_.after_stop);
    if (!worker.done && !worker.has_joined()) end_one(worker);
  }
}

void LaunchedWorkers::enforce() {
  const auto now = Clock::now();
  for (Worker& worker : workers_) {
    const auto end_at = worker.waits_until ? worker.waits_until : worker.term_at;
    if (worker.done || !end_at) continue;
    const auto pid = static_cast<uint64_t>(worker.process->pid());
    if (worker.kill_at) {
      if (now >= *worker.kill_at) worker.process->signal(SIGKILL);
    } else if (now >= *end_at || ((failed_ || succeeded_) && process_is_stopped(pid))) {
      end_one(worker);
    }
  }
}

void LaunchedWorkers::end_one(Worker& worker) {
  enforced_ = true;
  worker.process->signal(SIGTERM);
  worker.process->signal(SIGCONT);
  worker.kill_at = Clock::now() + grace_.after_term;
}

}  // namespace reigen
