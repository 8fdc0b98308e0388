#include "report/live/page_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/file/secret_file.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/process/own_program.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "config/schema.h"
#include "dist/launch/child_process.h"
#include "report/live/live_page.h"
#include "report/live/page_access.h"
#include "report/live/page_listener.h"
#include "report/live/page_token.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

constexpr rlim_t kMostMemory = rlim_t{2} << 30;
constexpr rlim_t kMostDescriptors = 256;
constexpr milliseconds kLongestPause{600'000};

void limit(int resource, rlim_t most) {
  rlimit now = {};
  getrlimit(resource, &now);
  const rlim_t value = std::min(most, now.rlim_max);
  const rlimit wanted = {.rlim_cur = value, .rlim_max = value};
  setrlimit(static_cast<__rlimit_resource>(resource), &wanted);
}

// The last line of a child's output, for the reason of its end.
class LastLine {
 public:
  // False once the other end is closed.
  bool read(const Socket& pipe) {
    const bool open = read_available(pipe, text_, text_.size() + kMost);
    while (!text_.empty() && text_.back() == '\n') text_.pop_back();
    text_.erase(0, text_.rfind('\n') + 1);
    if (text_.size() > kMost) text_.erase(0, text_.size() - kMost);
    return open;
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr size_t kMost = 1024;
  std::string text_;
};

std::string read_token() {
  std::string token;
  char buffer[kMostSecretBytes];
  ssize_t got = 0;
  while ((got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0 && token.size() < kMostSecretBytes) {
    token.append(buffer, static_cast<size_t>(got));
  }
  return token;
}

}  // namespace

PageProcess::PageProcess(PageProcessOptions options)
    : options_(std::move(options)), listener_(listen_for_page(options_.address, options_.port)) {
  options_.port = port_of(listener_);
  write_secret_file(link_file(), url() + "\n");
  watcher_ = thread_without_signals([this] { watch(); });
}

PageProcess::~PageProcess() {
  stopping_ = true;
  stop_.wake();
  watcher_.join();
  std::remove(link_file().c_str());
}

std::string PageProcess::url() const {
  return page_url(options_.address, options_.port, options_.token);
}

std::string PageProcess::address_text() const {
  return page_url(options_.address, options_.port, "");
}

std::string PageProcess::link_file() const { return options_.run + "/dashboard.url"; }

// The kernel ends the child with the thread that started it, so this thread lives as long as the
// page.
void PageProcess::watch() {
  pthread_setname_np(pthread_self(), "page watcher");
  milliseconds wait = options_.pause;
  bool warned = false;
  while (!stopping_) {
    const auto begun = std::chrono::steady_clock::now();
    const std::string end = serve_once();
    if (stopping_) return;
    constexpr std::chrono::minutes kWorked{1};
    if (std::chrono::steady_clock::now() - begun > kWorked) {
      wait = options_.pause;
      warned = false;
    }
    if (!warned) {
      log_warning(
          format("the process of the live page ended ({}); training continues, and the page is "
                 "started again",
                 end));
    }
    warned = true;
    if (!pause(wait)) return;
    wait = std::min(2 * wait, kLongestPause);
  }
}

std::string PageProcess::serve_once() {
  try {
    ChildSpec spec;
    spec.command = {"reigen", kPageCommand, options_.run, options_.address,
                    std::to_string(listener_.fd())};
    spec.file = own_program().file;
    spec.inherited = listener_.fd();
    spec.with_input = true;
    // It needs no secret but its own, which it gets through the pipe.
    spec.environment = {"REIGEN_TOKEN=", std::string(kPageTokenVariable) + "="};
    ChildProcess child(spec);
    std::string token = options_.token;
    write_available(child.in(), token);  // less than a pipe holds
    child.in().close();
    LastLine last;
    bool open = true;
    while (open && !stopping_) {
      pollfd waiting[] = {{child.err().fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
      poll(waiting, 2, -1);
      if (waiting[0].revents != 0) open = last.read(child.err());
    }
    child.signal(SIGKILL);
    std::optional<int> status;
    while (!(status = child.ended())) std::this_thread::sleep_for(milliseconds(1));
    return last.text().empty() ? format("status {}", *status) : last.text();
  } catch (const std::exception& e) {
    return e.what();
  }
}

bool PageProcess::pause(milliseconds length) {
  pollfd waiting = {stop_.fd(), POLLIN, 0};
  poll(&waiting, 1, static_cast<int>(length.count()));
  return !stopping_;
}

void limit_page_process() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, kMostDescriptors);
  // A sanitizer reserves terabytes of address space; there is no limit then.
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (pages * page_bytes < kMostMemory) limit(RLIMIT_AS, kMostMemory);
}

void run_page_process(std::span<const std::string> arguments) {
  if (arguments.size() != 3) throw ConfigError("this command is for `reigen train --dashboard`");
  constexpr int kFirst = STDERR_FILENO + 1;
  const auto fd = static_cast<int>(parse_integer(arguments[2], kFirst, 1 << 20));
  // Connections and locks of the training process do not belong here.
  if (fd > kFirst) close_range(kFirst, static_cast<unsigned>(fd) - 1, 0);
  close_range(static_cast<unsigned>(fd) + 1, ~0U, 0);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  limit_page_process();
  lower_priority();
  ignore_hangup();
  const sigset_t signals = interrupt_signals();  // blocked in the thread that started this process
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::ofstream("/proc/self/oom_score_adj") << "1000";
  const PageAccess access{.token = read_token(), .only_loopback = is_loopback(arguments[1])};
  serve_live_page(Socket(fd), arguments[0], access, true, interrupt_requested);
}

}  // namespace reigen
