#include "dist/launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

struct Pipe {
  Socket read;
  Socket write;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(format("cannot make a pipe: {}", errno_text(errno)));
  }
  return {Socket(ends[0]), Socket(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// The job's secret and that of the live page.
bool is_secret(std::string_view key) {
  return key == "REIGEN_TOKEN=" || key == "REIGEN_DASHBOARD_TOKEN=";
}

// This process's variables, replaced and extended by `over`.
std::vector<std::string> merged(const std::vector<std::string>& over, bool without_secrets) {
  std::vector<std::string> all = over;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view key = text.substr(0, text.find('=') + 1);
    bool replaced = without_secrets && is_secret(key);
    for (const std::string& other : over) replaced = replaced || other.starts_with(key);
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

}  // namespace

ChildProcess::ChildProcess(const ChildSpec& spec) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe in = spec.with_input ? make_pipe() : Pipe();
  Socket nothing(spec.with_input ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe failed = make_pipe();  // closed by a successful exec
  std::vector<std::string> command = spec.command;
  std::vector<std::string> environment = merged(spec.environment, spec.without_secrets);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const std::string file = spec.file.empty() ? spec.command.at(0) : spec.file;
  const pid_t parent = getpid();

  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours runs in the child
  pid_ = fork();
  if (pid_ == 0) {
    // Until exec only calls that are safe after a fork.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_DFL);
    dup2(spec.with_input ? in.read.fd() : nothing.fd(), STDIN_FILENO);
    dup2(out.write.fd(), STDOUT_FILENO);
    dup2(err.write.fd(), STDERR_FILENO);
    for (const int fd : {spec.inherited, spec.parent_pipe}) {
      if (fd >= 0) fcntl(fd, F_SETFD, 0);
    }
    // A thread other than the main one has these blocked, and the child would inherit that.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) sigdelset(&before, number);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (spec.folder.empty() || chdir(spec.folder.c_str()) == 0) {
      execvpe(file.c_str(), arguments.data(), variables.data());
    }
    const int error_number = errno;
    if (write(failed.write.fd(), &error_number, sizeof error_number) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw IoError(format("cannot start a process: {}", errno_text(fork_error)));
  setpgid(pid_, pid_);  // here and in the child: one of the two is first
  failed.write.close();
  int error_number = 0;
  if (read(failed.read.fd(), &error_number, sizeof error_number) == sizeof error_number) {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    throw IoError(format("cannot start {}: {}", file, errno_text(error_number)));
  }
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  in_ = std::move(in.write);
  for (int fd : {out_.fd(), err_.fd(), in_.fd()}) {
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  if (!ended()) {
    signal(SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  } else {
    kill(-pid_, SIGKILL);  // processes that it left behind
  }
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0 && !status_) kill(-pid_, number);
}

std::optional<int> ChildProcess::ended() {
  if (status_ || pid_ < 0) return status_;
  int raw = 0;
  if (waitpid(pid_, &raw, WNOHANG) != pid_) return std::nullopt;
  constexpr int kKilledBase = 128;
  status_ = WIFSIGNALED(raw) ? kKilledBase + WTERMSIG(raw) : WEXITSTATUS(raw);
  return status_;
}

}  // namespace reigen
