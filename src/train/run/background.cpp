#include "train/run/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/own_file.h"
#include "base/terminal.h"
#include "observe/record/records.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kTick = 50ms;

std::string console(const std::string& run) { return run + "/console.log"; }
std::string note(const std::string& run) { return run + "/background.json"; }

// Steps are logged here also with --quiet.
std::string steps_file(const std::string& run) { return run + "/measurements/rank-0.jsonl"; }

uintmax_t size_of(const std::string& path) {
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  return none ? 0 : size;
}

bool has_trained(const std::string& run, uintmax_t before) {
  if (size_of(steps_file(run)) <= before) return false;
  return read_file(steps_file(run)).find(line_start<StepRecord>(), before) != std::string::npos;
}

void write_note(const std::string& run, const Json& json) {
  const std::string path = note(run);
  FileWriter file(path + ".new");
  file.write(pretty(json) + "\n");
  file.close();
  fs::rename(path + ".new", path);
}

// In the child: a session without a terminal, with output to console.log.
void leave_terminal(const std::string& run) {
  setsid();
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = open_own_file(console(run), O_WRONLY | O_CREAT | O_APPEND);
  if (in < 0) throw IoError(format("{}: {}", console(run), errno_text(errno)));
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
}

// In the child: records in background.json how `work` ended.
void work_and_note(const std::string& run, const std::function<void()>& work) {
  Json facts = {{"process", getpid()}, {"host", host_name()}};
  auto note_end = [&](ExitCode code, const std::string& error) {
    facts["code"] = static_cast<int>(code);
    facts["error"] = error;
    write_note(run, facts);
  };
  try {
    leave_terminal(run);
    write_note(run, facts);
    work();
  } catch (const std::exception& e) {
    const Failure failure = failure_of(e);
    note_end(failure.code, failure.message);
    throw;
  }
  note_end(ExitCode::kOk, "");
}

Json read_note(const std::string& run) {
  if (!path_exists(note(run))) {
    throw ConfigError(format(
        "{}: no run was started in the background here; `reigen train --detach` starts one", run));
  }
  return Json::parse(read_file(note(run)));
}

// When the process last wrote background.json, in seconds since 1970.
double time_of_note(const std::string& run) {
  struct stat facts = {};
  return stat(note(run).c_str(), &facts) == 0 ? static_cast<double>(facts.st_mtime) : unix_now();
}

bool is_alive(const std::string& run, const Json& facts) {
  return facts.at("host") != host_name() ||
         process_state(facts.at("process"), time_of_note(run)) == ProcessState::kRunning;
}

void throw_end(const Json& facts) {
  const int code = facts.value("code", 0);
  if (code != 0) throw Error(static_cast<ExitCode>(code), facts.value("error", "the run failed"));
}

}  // namespace

void run_in_background(const std::string& run, const std::function<void()>& work) {
  std::error_code failed;
  fs::create_directories(run, failed);
  if (failed) throw IoError(format("{}: {}", run, failed.message()));
  std::error_code ignored;
  fs::remove(note(run), ignored);
  fs::remove(console(run), ignored);
  const uintmax_t before = size_of(steps_file(run));
  const pid_t child = fork();
  if (child < 0) throw IoError(format("cannot start a process: {}", errno_text(errno)));
  if (child == 0) return work_and_note(run, work);
  while (waitpid(child, nullptr, WNOHANG) == 0) {
    if (has_trained(run, before)) {
      log_note(
          format("training in the background as process {}; `reigen attach {}` shows its output",
                 child, run));
      return;
    }
    if (interrupt_requested()) {
      kill(child, SIGTERM);
      waitpid(child, nullptr, 0);
      break;
    }
    std::this_thread::sleep_for(kTick);
  }
  const Json facts = read_note(run);  // the child has ended before its first step
  if (facts.value("code", 0) != 0 && !path_exists(run + "/config.yaml")) {
    for (const std::string& made : {note(run), console(run), run}) fs::remove(made, ignored);
  }
  throw_end(facts);
}

void attach(const std::string& run) {
  Json facts = read_note(run);
  std::ifstream in(console(run));
  auto show = [&] {
    in.clear();
    std::string text;
    for (std::string line; std::getline(in, line);) {
      if (in.eof()) {  // an incomplete line
        in.clear();
        in.seekg(-static_cast<std::streamoff>(line.size()), std::ios::cur);
        break;
      }
      text += line + "\n";
    }
    if (!text.empty()) print(text);
  };
  while (!facts.contains("code") && is_alive(run, facts)) {
    show();
    if (interrupt_requested()) {
      log_note(format("the run continues; `reigen attach {}` shows it again", run));
      return;
    }
    std::this_thread::sleep_for(kTick);
    facts = read_note(run);
  }
  show();
  if (!facts.contains("code")) {
    throw CommError(
        format("{}: process {} ended without recording its exit; `reigen train --run {}` resumes "
               "from the last checkpoint",
               run, facts.at("process").get<int>(), run));
  }
  throw_end(facts);
}

}  // namespace reigen
