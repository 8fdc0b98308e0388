#include "observe/sample/deschedule_watch.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include "base/thread.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSleep{20};
// Wake-up delay on a busy host, which does not count as descheduled.
constexpr std::chrono::milliseconds kUsualDelay{15};

constexpr int kSleepsPerRead = 10;  // of cpu.stat

// The cpu.stat file of this process's control group; empty without one.
std::string stat_file() {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == "cpu" || controllers == "cpu,cpuacct") {
      return "/sys/fs/cgroup/" + controllers + path + "/cpu.stat";
    }
    if (controllers.empty()) unified = "/sys/fs/cgroup" + path + "/cpu.stat";
  }
  return unified;
}

// Throttled time so far, summed over all CPUs of the group.
double throttled_seconds(const std::string& file) {
  std::ifstream stat(file);
  std::string name;
  for (double value = 0; stat >> name >> value;) {
    if (name == "throttled_time") return value / 1e9;
    if (name == "throttled_usec") return value / 1e6;
  }
  return 0;
}

}  // namespace

DescheduleWatch::DescheduleWatch() {
  thread_ = thread_without_signals([this] { run(); });
}

DescheduleWatch::~DescheduleWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

double DescheduleWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(descheduled_, 0);
}

void DescheduleWatch::run() {
  const std::string file = stat_file();
  double throttled = throttled_seconds(file);
  Clock::time_point looked = Clock::now();
  double overslept = 0;
  std::unique_lock lock(mutex_);
  for (int beat = 1; !stopping_; ++beat) {
    const Clock::time_point slept = Clock::now();
    wake_.wait_for(lock, kSleep, [this] { return stopping_; });
    const Clock::time_point now = Clock::now();
    const Clock::duration late = now - slept - kSleep;
    if (late > kUsualDelay) overslept += std::chrono::duration<double>(late).count();
    if (beat % kSleepsPerRead != 0) continue;
    const double so_far = throttled_seconds(file);
    const double passed = std::chrono::duration<double>(now - looked).count();
    descheduled_ += std::max(overslept, std::min(passed, so_far - throttled));
    throttled = so_far;
    looked = now;
    overslept = 0;
  }
}

}  // namespace reigen
