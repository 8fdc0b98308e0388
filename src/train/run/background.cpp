#include "train/run/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/machine.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "observe/record/records.h"
#include "observe/record/run_reader.h"
#include "train/directory/run_directory.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kTick = 50ms;
// Without a sign of life for so long, attach() gives up on a process of a different host.
constexpr double kSilentHostSeconds = 600;

constexpr const char* kConsole = "console.log";
constexpr const char* kNote = "background.json";

std::string console(const std::string& run) { return run + "/" + kConsole; }
std::string note_path(const std::string& run) { return run + "/" + kNote; }

// Steps are logged here also with --quiet.
std::string steps_file(const std::string& run) { return run + "/measurements/rank-0.jsonl"; }

uintmax_t size_of(const std::string& path) {
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  return none ? 0 : size;
}

bool has_trained(const std::string& run, uintmax_t before) {
  if (size_of(steps_file(run)) <= before) return false;
  return read_own_file(steps_file(run)).find(line_start<StepRecord>(), before) != std::string::npos;
}

// background.json
struct Note {
  uint64_t process = 0;
  std::string host;
  std::string identity;  // process_identity(); empty in files of version 0.1
  std::optional<int> code;
  std::string error;
};

Json to_json(const Note& note) {
  Json json = {{"process", note.process}, {"host", note.host}, {"identity", note.identity}};
  if (note.code) json["code"] = *note.code;
  if (note.code) json["error"] = note.error;
  return json;
}

std::optional<Note> find_note(const std::string& run) {
  if (!path_exists(note_path(run))) return std::nullopt;
  const Json json = read_own_json(note_path(run));
  try {
    Note note;
    note.process = json.at("process").get<uint64_t>();
    note.host = json.at("host").get<std::string>();
    note.identity = json.value("identity", "");
    if (json.contains("code")) note.code = json.at("code").get<int>();
    note.error = json.value("error", "");
    return note;
  } catch (const Json::exception& e) {
    throw DataError(format("{}: is damaged ({}); {}/log.txt has the log of the run", note_path(run),
                           e.what(), run));
  }
}

Note read_note(const std::string& run) {
  if (std::optional<Note> note = find_note(run)) return *note;
  throw ConfigError(format(
      "{}: no run was started in the background here; `reigen train --detach` starts one", run));
}

// The directory of the run, and console.log in it, which stays locked as long as a process has it
// as its output. Writes go through the descriptor: the directory may be moved meanwhile.
class BackgroundFiles {
 public:
  explicit BackgroundFiles(const std::string& run) : run_(run) {
    std::error_code failed;
    fs::create_directories(run, failed);
    if (failed) throw IoError(format("{}: {}", run, failed.message()));
    directory_ = open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_ < 0) throw IoError(format("{}: {}", run, errno_text(errno)));
    constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    console_ = openat(directory_, kConsole, kFlags, 0666);
    if (console_ < 0) throw IoError(format("{}: {}", console(run), errno_text(errno)));
  }
  ~BackgroundFiles() {
    ::close(console_);
    ::close(directory_);
  }
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  // Throws ConfigError while a process trains in the run; otherwise the files are empty and ours.
  void take() const {
    if (flock(console_, LOCK_EX | LOCK_NB) != 0) {
      std::string process;
      try {
        if (const std::optional<Note> note = find_note(run_)) {
          process = format(" (process {})", note->process);
        }
      } catch (const DataError&) {  // the message lacks the process then
      }
      throw ConfigError(format(
          "{}: another reigen{} trains in this run in the background; `reigen attach {}` shows it",
          run_, process, shell_word(run_)));
    }
    check_not_training(run_);
    if (ftruncate(console_, 0) != 0) {
      throw IoError(format("{}: {}", console(run_), errno_text(errno)));
    }
    unlinkat(directory_, kNote, 0);
  }

  // In the child: a session without a terminal, with output to console.log.
  void leave_terminal() const {
    setsid();
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0) throw IoError(format("/dev/null: {}", errno_text(errno)));
    dup2(in, STDIN_FILENO);
    dup2(console_, STDOUT_FILENO);
    dup2(console_, STDERR_FILENO);
  }

  void write(const Note& note) const {
    const std::string aside = std::string(kNote) + ".new";
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    unlinkat(directory_, aside.c_str(), 0);  // of a crash, or from elsewhere
    const int fd = openat(directory_, aside.c_str(), kFlags, 0666);
    const std::string text = pretty(to_json(note));
    const bool written =
        fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (fd >= 0) ::close(fd);
    if (!written || renameat(directory_, aside.c_str(), directory_, kNote) != 0) {
      throw IoError(format("{}: cannot write: {}", note_path(run_), errno_text(errno)));
    }
  }

 private:
  std::string run_;
  int directory_ = -1;
  int console_ = -1;
};

// In the child: records in background.json how `work` ended.
void work_and_note(const BackgroundFiles& files, const std::function<void()>& work) {
  const auto process = static_cast<uint64_t>(getpid());
  Note note = {.process = process, .host = host_name(), .identity = process_identity(process)};
  auto note_end = [&](ExitCode code, const std::string& error) {
    note.code = static_cast<int>(code);
    note.error = error;
    try {
      files.write(note);
    } catch (const IoError& e) {  // attach() finds out from the process that it has ended
      log_warning(e.what());
    }
  };
  try {
    files.leave_terminal();
    files.write(note);
    work();
  } catch (const std::exception& e) {
    const Failure failure = failure_of(e);
    note_end(failure.code, failure.message);
    throw;
  }
  note_end(ExitCode::kOk, "");
}

// In seconds since 1970; 0 if there is no such file.
double time_of(const std::string& path) {
  struct stat facts = {};
  return stat(path.c_str(), &facts) == 0 ? static_cast<double>(facts.st_mtime) : 0;
}

// Whether the command line of a process has the argument `train`.
bool is_train_command(uint64_t process) {
  try {
    const std::string line = read_file(format("/proc/{}/cmdline", process));
    return line.find(std::string_view("\0train\0", 7)) != std::string::npos;
  } catch (const DataError&) {  // it has just ended
    return false;
  }
}

bool is_alive(const std::string& run, const Note& note) {
  if (note.host != host_name()) {
    const double seen =
        std::max({time_of(note_path(run)), time_of(console(run)), time_of(steps_file(run))});
    return unix_now() - seen < kSilentHostSeconds;
  }
  if (!note.identity.empty()) return process_identity(note.process) == note.identity;
  return process_state(note.process, time_of(note_path(run))) == ProcessState::kRunning &&
         is_train_command(note.process);
}

void throw_end(const Note& note) {
  if (note.code.value_or(0) == 0) return;
  throw Error(static_cast<ExitCode>(*note.code),
              note.error.empty() ? "the run failed" : note.error);
}

// Prints the complete lines of a file that were not printed before.
class LineReader {
 public:
  explicit LineReader(const std::string& path) {
    if (path_exists(path)) fd_ = open_own_for_reading(path);
  }
  ~LineReader() {
    if (fd_ >= 0) ::close(fd_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The file may be replaced by one that begins with the same lines (take_over.h).
  void open_again(const std::string& path) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = path_exists(path) ? open_own_for_reading(path) : -1;
  }

  void show() {
    struct stat facts = {};
    if (fstat(fd_, &facts) == 0 && facts.st_size < at_) at_ = 0;  // a later run has cleared it
    std::string block(size_t{1} << 20, '\0');
    while (true) {
      const ssize_t got = pread(fd_, block.data(), block.size(), at_);
      if (got <= 0) return;
      std::string_view text(block.data(), static_cast<size_t>(got));
      if (text.size() < block.size()) text = text.substr(0, text.rfind('\n') + 1);
      if (text.empty()) return;
      print(text);
      at_ += static_cast<off_t>(text.size());
    }
  }

 private:
  int fd_ = -1;
  off_t at_ = 0;
};

// After the child has ended before its first step.
void throw_early_end(const std::string& run, pid_t child) {
  const std::optional<Note> note = find_note(run);
  std::error_code ignored;
  if (!path_exists(run + "/config.yaml")) {
    for (const std::string& made : {note_path(run), console(run), run}) fs::remove(made, ignored);
  }
  if (!note || !note->code) {
    throw CommError(format("{}: process {} ended before its first step without recording its exit",
                           run, child));
  }
  throw_end(*note);
}

}  // namespace

void run_in_background(const std::string& run, const std::function<void()>& work) {
  check_not_training(run);  // before a file is made; again when console.log is locked
  const BackgroundFiles files(run);
  files.take();
  const uintmax_t before = size_of(steps_file(run));
  const pid_t child = fork();
  if (child < 0) throw IoError(format("cannot start a process: {}", errno_text(errno)));
  if (child == 0) return work_and_note(files, work);
  while (waitpid(child, nullptr, WNOHANG) == 0) {
    if (has_trained(run, before)) {
      log_note(
          format("training in the background as process {}; `reigen attach {}` shows its output",
                 child, shell_word(run)));
      return;
    }
    if (interrupt_requested()) {
      kill(child, SIGTERM);
      waitpid(child, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(kTick);
  }
  throw_early_end(run, child);
}

namespace {

// After the launcher of an elastic job has ended without a word: its workers on other hosts train.
// False if none does, or if they end before the run does.
bool attach_to_workers(const std::string& run, const Note& note) {
  constexpr double kWriterChange = 10;  // seconds, in which a lost writer's run is taken over
  if (!is_training(run)) return false;
  log_warning(format(
      "the launcher, process {} of host {}, has ended; workers of its job train without it, with "
      "this log from the beginning:",
      note.process, note.host));
  LineReader log(run + "/log.txt");
  RunReader reader(run);
  Stopwatch since_trained;
  bool ended = false;
  while (!ended && since_trained.seconds() < kWriterChange) {
    if (interrupt_requested()) {
      log_note(format("the run continues; `reigen attach {}` shows it again", shell_word(run)));
      return true;
    }
    std::this_thread::sleep_for(kTick);
    if (is_training(run)) {
      since_trained = {};
    } else {
      reader.refresh();
      ended = reader.run().ended;
    }
    log.open_again(run + "/log.txt");
    log.show();
  }
  return ended;
}

}  // namespace

void attach(const std::string& run) {
  Note note = read_note(run);
  LineReader lines(console(run));
  while (!note.code && is_alive(run, note)) {
    lines.show();
    if (interrupt_requested()) {
      log_note(format("the run continues; `reigen attach {}` shows it again", shell_word(run)));
      return;
    }
    std::this_thread::sleep_for(kTick);
    note = read_note(run);
  }
  lines.show();
  if (!note.code && attach_to_workers(run, note)) return;
  if (!note.code) {
    const bool here = note.host == host_name();
    throw CommError(format(
        "{}: process {} of host {} {}; {}`reigen train --run {}` resumes from the last checkpoint",
        run, note.process, note.host,
        here ? "ended without recording its exit"
             : format("wrote nothing for {}", human_seconds(kSilentHostSeconds)),
        here ? "" : "if it has ended, ", shell_word(run)));
  }
  throw_end(note);
}

}  // namespace reigen
