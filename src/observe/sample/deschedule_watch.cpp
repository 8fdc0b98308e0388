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
// What a scheduler may be late by without anybody having been held.
constexpr std::chrono::milliseconds kUsual{15};

constexpr int kLook = 10;  // sleeps from one look at the control group to the next

// Where the kernel says how long it throttled this process's control group; empty where it does
// not.
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

// Seconds so far, of all its processors together.
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
  return std::exchange(held_, 0);
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
    if (late > kUsual) overslept += std::chrono::duration<double>(late).count();
    if (beat % kLook != 0) continue;
    const double so_far = throttled_seconds(file);
    const double passed = std::chrono::duration<double>(now - looked).count();
    held_ += std::max(overslept, std::min(passed, so_far - throttled));
    throttled = so_far;
    looked = now;
    overslept = 0;
  }
}

}  // namespace reigen
