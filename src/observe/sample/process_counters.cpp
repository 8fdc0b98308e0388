#include "observe/sample/process_counters.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "base/machine.h"
#include "base/thread.h"

namespace reigen {
namespace {

constexpr size_t kMachineLetters = 8;
constexpr int kMostCores = 1 << 16;

double own_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

uint64_t own_major_faults() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<uint64_t>(use.ru_majflt);
}

bool reads_batches(const std::filesystem::path& task) {
  std::string name;
  std::ifstream in(task / "comm");
  return std::getline(in, name) && name == kInputThread;
}

// "seconds running, seconds waiting for a core, times run" in nanoseconds. A kernel that does not
// count leaves zeros also for threads that have run.
void read_threads(const std::string& root, int input, ProcessCounters& counters) {
  std::map<int, double> delays;
  uint64_t ran = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc/self/task", none)) {
    std::ifstream in(entry.path() / "schedstat");
    uint64_t running = 0;
    uint64_t waiting = 0;
    if (!(in >> running >> waiting)) continue;  // the thread has ended
    ran += running;
    const std::string name = entry.path().filename().string();
    const int thread = std::atoi(name.c_str());
    const double delay = 1e-9 * static_cast<double>(waiting);
    delays[thread] = delay;
    if (thread == input || (input == 0 && reads_batches(entry.path()))) {
      counters.input = {thread, 1e-9 * static_cast<double>(running), delay};
    }
  }
  if (ran > 0) counters.run_delay = std::move(delays);
  if (ran == 0) counters.input.reset();
}

std::vector<int> allowed_cores() {
  cpu_set_t set;  // has room for 1024 cores; the call fails on a larger machine
  std::vector<int> cores;
  if (sched_getaffinity(getpid(), sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice"; guest is in user.
void read_core_times(const std::string& root, ProcessCounters& counters) {
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream in(root + "/proc/stat");
  std::string line;
  while (std::getline(in, line) && line.starts_with("cpu")) {
    std::istringstream fields(line.substr(3));
    int core = -1;
    if (line[3] == ' ' || !(fields >> core)) continue;
    if (!std::binary_search(counters.cores.begin(), counters.cores.end(), core)) continue;
    constexpr int kIdle = 3;
    constexpr int kWaitingForDisk = 4;
    constexpr int kSteal = 7;
    double ticks = 0;
    for (int i = 0; i <= kSteal && fields >> ticks; ++i) {
      if (i == kIdle || i == kWaitingForDisk) continue;
      (i == kSteal ? counters.stolen : counters.busy) += ticks / ticks_per_second;
    }
  }
}

std::string boot_of(const std::string& root) {
  std::ifstream in(root + "/proc/sys/kernel/random/boot_id");
  std::string boot;
  in >> boot;
  return boot.substr(0, kMachineLetters);
}

}  // namespace

ProcessCounters read_process_counters(const std::string& root, int input) {
  ProcessCounters counters;
  counters.when = std::chrono::steady_clock::now();
  counters.cpu = own_cpu_seconds();
  read_threads(root, input, counters);
  counters.throttled = throttled_seconds(root);
  counters.major_faults = own_major_faults();
  counters.cores = allowed_cores();
  counters.core_limit = core_limit(root);
  read_core_times(root, counters);
  counters.machine = boot_of(root);
  return counters;
}

ProcessRecord process_between(const ProcessCounters& before, const ProcessCounters& now) {
  ProcessRecord record;
  record.seconds = std::chrono::duration<double>(now.when - before.when).count();
  record.machine = now.machine;
  record.cores = list_of_cores(now.cores);
  record.core_count = now.cores.size();
  record.core_limit = now.core_limit;
  record.cpu = std::max(0.0, now.cpu - before.cpu);
  if (before.run_delay && now.run_delay) {
    record.run_delay = 0;
    for (const auto& [thread, delay] : *now.run_delay) {
      const auto old = before.run_delay->find(thread);
      const double earlier = old == before.run_delay->end() ? 0 : old->second;
      *record.run_delay += std::max(0.0, delay - earlier);
    }
  }
  if (before.input && now.input && before.input->id == now.input->id) {
    record.input_cpu = std::max(0.0, now.input->cpu - before.input->cpu);
    record.input_delay = std::max(0.0, now.input->delay - before.input->delay);
  }
  record.throttled = std::max(0.0, now.throttled - before.throttled);
  const bool same = before.cores == now.cores;
  record.cores_busy = same ? std::max(0.0, now.busy - before.busy) : record.cpu;
  record.stolen = same ? std::max(0.0, now.stolen - before.stolen) : 0;
  record.major_faults = now.major_faults - std::min(now.major_faults, before.major_faults);
  return record;
}

std::string list_of_cores(const std::vector<int>& cores) {
  std::string list;
  for (size_t i = 0; i < cores.size();) {
    size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    list += format("{}{}", list.empty() ? "" : ",", cores[i]);
    if (end - i > 1) list += format("-{}", cores[end - 1]);
    i = end;
  }
  return list;
}

std::vector<int> cores_in(const std::string& list) {
  std::vector<int> cores;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    std::istringstream ends(range);
    int first = -1;
    if (!(ends >> first)) return {};
    int last = first;
    char dash = 0;
    if (ends >> dash && (dash != '-' || !(ends >> last))) return {};
    if (first < 0 || last < first || last >= kMostCores) return {};
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

}  // namespace reigen
