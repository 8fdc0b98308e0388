#include "base/machine.h"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/format.h"

namespace reigen {
namespace {

// "VmHWM:     123 kB" in /proc, "inactive_file 123" in a control group.
std::optional<uint64_t> named_number(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string key;
    uint64_t value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

// The number at the start of a file; none for "max" or a missing file.
std::optional<uint64_t> first_number(const std::string& path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // in memory.stat: file pages the kernel drops before it refuses memory
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t room_in(const std::string& directory, const GroupFiles& files) {
  const auto limit = first_number(directory + "/" + files.limit);
  const auto usage = first_number(directory + "/" + files.usage);
  if (!limit || !usage) return kNoLimit;
  const uint64_t cache =
      std::min(*usage, named_number(directory + "/memory.stat", files.cache).value_or(0));
  return *limit - std::min(*limit, *usage - cache);
}

// Calls visit(directory) for a group and its ancestors. In a container the path may be the host's
// and not exist here; the limit is then at the mount itself, which is visited last.
template <class Visit>
void visit_up_from(const std::string& mount, std::string group, Visit&& visit) {
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    visit(mount + group);
    if (group.empty()) return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

// Calls version2(directory) and version1(directory) for the groups of this process that may limit
// it by `controller`. Lines of /proc/self/cgroup: "0::/path" in version 2, "7:memory:/path" in
// version 1.
template <class Version2, class Version1>
void visit_groups(const std::string& root, const std::string& controller, Version2&& version2,
                  Version1&& version1) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      visit_up_from(root + "/sys/fs/cgroup", group, version2);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      // Mounted by the names of all its controllers, with a link for each.
      visit_up_from(root + "/sys/fs/cgroup/" + controller, group, version1);
    }
  }
}

uint64_t group_room(const std::string& root) {
  uint64_t room = kNoLimit;
  visit_groups(
      root, "memory",
      [&](const std::string& group) { room = std::min(room, room_in(group, kVersion2)); },
      [&](const std::string& group) { room = std::min(room, room_in(group, kVersion1)); });
  return room;
}

struct ProcessStat {
  char state = 'X';         // as in proc(5): R, S, D, T, Z, ...
  std::string start = "0";  // in clock ticks since boot
};

// None if there is no such process. A process that has ended but was not waited for by its parent
// (a zombie) counts as ended.
std::optional<ProcessStat> process_stat(uint64_t process) {
  std::ifstream in(format("/proc/{}/stat", process));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  // The name in brackets may contain anything. The first field after it is the state, the 20th the
  // start.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  for (int i = 1; i < 20; ++i) fields >> stat.start;
  if (!fields || stat.state == 'Z' || stat.state == 'X') return std::nullopt;
  return stat;
}

// Seconds since 1970; none if there is no such process.
std::optional<double> process_start(uint64_t process) {
  const std::optional<ProcessStat> stat = process_stat(process);
  const auto boot = named_number("/proc/stat", "btime");
  if (!stat || !boot) return std::nullopt;
  return static_cast<double>(*boot) +
         std::strtod(stat->start.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

bool is_loopback(const std::string& address) {
  constexpr uint32_t kLoopback = 127;
  in_addr number{};
  if (inet_pton(AF_INET, address.c_str(), &number) == 1) {
    return ntohl(number.s_addr) >> 24 == kLoopback;
  }
  return address == "localhost" || address == "::1";
}

int cores_within(int cores, double limit) {
  if (limit <= 0 || limit >= cores) return std::max(1, cores);
  return std::max(1, static_cast<int>(limit));
}

int usable_cores() {
  cpu_set_t set;  // has room for 1024 cores; the call fails on a larger machine
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int cores = known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  return cores_within(cores, core_limit());
}

double core_limit(const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  auto limit = [&](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    least = std::min(least, static_cast<double>(*quota) / static_cast<double>(*period));
  };
  visit_groups(
      root, "cpu",
      [&](const std::string& group) {  // "50000 100000", or "max 100000"
        std::ifstream in(group + "/cpu.max");
        uint64_t quota = 0;
        uint64_t period = 0;
        if (in >> quota >> period) limit(quota, period);
      },
      [&](const std::string& group) {  // -1 without a limit
        std::ifstream in(group + "/cpu.cfs_quota_us");
        int64_t quota = 0;
        if (in >> quota && quota > 0)
          limit(static_cast<uint64_t>(quota), first_number(group + "/cpu.cfs_period_us"));
      });
  return std::isfinite(least) ? least : 0;
}

// The groups stop their threads one after another: the longest time of any of them.
double throttled_seconds(const std::string& root) {
  double longest = 0;
  visit_groups(
      root, "cpu",
      [&](const std::string& group) {
        const auto us = named_number(group + "/cpu.stat", "throttled_usec");
        longest = std::max(longest, 1e-6 * static_cast<double>(us.value_or(0)));
      },
      [&](const std::string& group) {
        const auto ns = named_number(group + "/cpu.stat", "throttled_time");
        longest = std::max(longest, 1e-9 * static_cast<double>(ns.value_or(0)));
      });
  return longest;
}

unsigned thread_count(int64_t threads) {
  return static_cast<unsigned>(threads > 0 ? threads : usable_cores());
}

void lower_priority() {
  constexpr int kLow = 10;
  setpriority(PRIO_PROCESS, 0, kLow);  // on Linux the calling thread's
}

ProcessMemory process_memory() {
  const std::string status = "/proc/self/status";
  return {.resident_bytes = named_number(status, "VmRSS:").value_or(0) * 1024,
          .peak_resident_bytes = named_number(status, "VmHWM:").value_or(0) * 1024};
}

uint64_t available_memory(const std::string& root) {
  const std::optional<uint64_t> kib = named_number(root + "/proc/meminfo", "MemAvailable:");
  // Where /proc is not mounted the kernel names only the memory that caches do not use either.
  struct sysinfo facts = {};
  if (!kib) sysinfo(&facts);
  const uint64_t machine = kib ? *kib * 1024 : (facts.freeram + facts.bufferram) * facts.mem_unit;
  return std::min(machine, group_room(root));
}

uint64_t memory_limit(const std::string& root) {
  // Version 1 writes the largest number of pages where there is no limit.
  const uint64_t machine = named_number(root + "/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  uint64_t least = machine;
  auto limit = [&](const std::string& file) {
    least = std::min(least, first_number(file).value_or(least));
  };
  visit_groups(
      root, "memory", [&](const std::string& group) { limit(group + "/memory.max"); },
      [&](const std::string& group) { limit(group + "/memory.limit_in_bytes"); });
  return least < machine ? least : 0;
}

std::string process_identity(uint64_t process) {
  const std::optional<ProcessStat> stat = process_stat(process);
  if (!stat) return "";
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot;
  in >> boot;
  return format("{}/{}", boot, stat->start);
}

bool process_is_stopped(uint64_t process) {
  const std::optional<ProcessStat> stat = process_stat(process);
  return stat && (stat->state == 'T' || stat->state == 't');
}

ProcessState process_state(uint64_t process, double seen) {
  constexpr double kClockError = 60;  // seconds; /proc counts from a boot time in whole seconds
  const std::optional<double> start = process_start(process);
  if (!start) return ProcessState::kEnded;
  return *start < seen + kClockError ? ProcessState::kRunning : ProcessState::kReplaced;
}

}  // namespace reigen
