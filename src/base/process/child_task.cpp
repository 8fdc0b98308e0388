#include "base/process/child_task.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

// A message is a kind and a size, then that many bytes.
enum class Kind : char { kProgress = 'P', kResult = 'R', kError = 'E' };

struct Head {
  Kind kind;
  uint64_t size;
};

bool write_all(int fd, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t put = write(fd, from, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

void send(int fd, Kind kind, const void* data, size_t size) {
  Head head{kind, size};
  if (!write_all(fd, &head, sizeof head) || !write_all(fd, data, size)) _exit(1);
}

// The parent handles signals and kills the child; the kernel does if the parent dies. The child
// closes every other descriptor: a lock of the parent must not outlive it here.
[[noreturn]] void work_as_child(int fd, pid_t parent,
                                const std::function<std::string(const ReportProgress&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (dup2(fd, 3) != 3) _exit(1);
  close_range(4, ~0U, 0);
  fd = 3;
  try {
    std::string result = work([fd](uint64_t n) { send(fd, Kind::kProgress, &n, sizeof n); });
    send(fd, Kind::kResult, result.data(), result.size());
  } catch (const std::exception& e) {
    send(fd, Kind::kError, e.what(), std::strlen(e.what()));
  }
  _exit(0);
}

// Blocks signals during the fork, so that none reaches the child before it ignores them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (int number : kSignals) sigaddset(&signals, number);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  static void ignore_for_good() {
    for (int number : kSignals) std::signal(number, SIG_IGN);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t before_;
};

// Reads messages until the result, an error, or the end of the pipe.
class Listener {
 public:
  Listener(int fd, const ReportProgress& on_progress) : fd_(fd), on_progress_(on_progress) {}

  std::string result() {
    Head head{};
    while (read_all(&head, sizeof head)) {
      std::string bytes(head.size, '\0');
      if (!read_all(bytes.data(), bytes.size())) break;
      if (head.kind == Kind::kResult) return bytes;
      if (head.kind == Kind::kError) throw ChildError{bytes};
      uint64_t n = 0;
      std::memcpy(&n, bytes.data(), sizeof n);
      on_progress_(n);
    }
    throw ChildError{"the child process ended early", true};
  }

 private:
  bool read_all(void* out, size_t size) {
    char* to = static_cast<char*>(out);
    while (size > 0) {
      check_interrupt();
      pollfd wait{fd_, POLLIN, 0};
      if (poll(&wait, 1, 100) <= 0) continue;
      ssize_t got = read(fd_, to, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }

  int fd_;
  const ReportProgress& on_progress_;
};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

std::string run_in_child(const std::function<std::string(const ReportProgress&)>& work,
                         const std::function<ReportProgress()>& listen) {
  int ends[2];
  if (pipe(ends) != 0) throw IoError(format("cannot make a pipe: {}", errno_text(errno)));
  const pid_t parent = getpid();
  pid_t child = 0;
  {
    BlockedSignals blocked;
    child = fork();
    if (child == 0) BlockedSignals::ignore_for_good();
  }
  if (child < 0) {
    int error_number = errno;
    close(ends[0]);
    close(ends[1]);
    throw IoError(format("cannot start a process: {}", errno_text(error_number)));
  }
  if (child == 0) {
    work_as_child(ends[1], parent, work);
  }
  close(ends[1]);
  // On every path the child is killed or has ended, and is waited for.
  struct Reaper {
    pid_t child;
    int fd;
    int status = 0;
    bool done = false;
    void reap(bool kill_first) {
      if (done) return;
      if (kill_first) kill(child, SIGKILL);
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      close(fd);
      done = true;
    }
    ~Reaper() { reap(true); }
  } reaper{child, ends[0]};
  try {
    const ReportProgress on_progress = listen();
    std::string result = Listener(ends[0], on_progress).result();
    reaper.reap(false);
    return result;
  } catch (ChildError& e) {
    reaper.reap(false);
    check_interrupt();
    if (e.died) e.message = how_it_ended(reaper.status);
    throw;
  }
}

}  // namespace reigen
