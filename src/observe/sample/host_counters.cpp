#include "observe/sample/host_counters.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace reigen {
namespace {

constexpr uint64_t kSectorBytes = 512;  // in /proc/diskstats, for every sector size of the disk
constexpr uint64_t kBytesPerMegabit = 125'000;

// "cpu0 user nice system idle iowait irq softirq steal guest guest_nice"; guest is in user.
void read_cores(const std::string& root, HostCounters& counters) {
  std::ifstream in(root + "/proc/stat");
  std::string line;
  while (std::getline(in, line) && line.starts_with("cpu")) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name == "cpu") continue;
    HostCounters::Core core;
    uint64_t ticks = 0;
    for (int i = 0; i < 8 && fields >> ticks; ++i) {
      core.all += ticks;
      if (i != 3 && i != 4) core.busy += ticks;
    }
    counters.cores.push_back(core);
  }
}

uint64_t speed_of(const std::string& root, const std::string& name) {
  std::ifstream in(root + "/sys/class/net/" + name + "/speed");
  int64_t megabits = 0;
  return in >> megabits && megabits > 0 ? static_cast<uint64_t>(megabits) * kBytesPerMegabit : 0;
}

void read_interfaces(const std::string& root, HostCounters& counters) {
  std::ifstream in(root + "/proc/net/dev");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two header lines
    HostCounters::Interface interface;
    const size_t first = line.find_first_not_of(' ');
    interface.name = line.substr(first, colon - first);
    std::istringstream fields(line.substr(colon + 1));
    uint64_t skipped = 0;
    fields >> interface.in;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    fields >> interface.out;
    if (interface.in == 0 && interface.out == 0) continue;  // down, or never used
    interface.speed = speed_of(root, interface.name);
    counters.interfaces.push_back(std::move(interface));
  }
}

void read_memory(const std::string& root, HostCounters& counters) {
  std::ifstream in(root + "/proc/meminfo");
  std::string line;
  uint64_t available = 0;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kilobytes = 0;
    fields >> name >> kilobytes;
    if (name == "MemTotal:") counters.memory_total = kilobytes * 1024;
    if (name != "MemAvailable:") continue;
    available = kilobytes * 1024;
    break;
  }
  counters.memory_used = counters.memory_total - std::min(counters.memory_total, available);
}

// Only whole disks: the traffic of partitions, loop, RAM and device-mapper devices is also counted
// by the disk below them.
bool is_disk(const std::string& root, const std::string& name) {
  if (name.starts_with("loop") || name.starts_with("ram") || name.starts_with("dm-") ||
      name.starts_with("md") || name.starts_with("zram")) {
    return false;
  }
  return std::ifstream(root + "/sys/block/" + name + "/stat").good();
}

void read_disks(const std::string& root, HostCounters& counters) {
  std::ifstream in(root + "/proc/diskstats");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    uint64_t skipped = 0;
    uint64_t read = 0;
    uint64_t written = 0;
    std::string name;
    fields >> skipped >> skipped >> name >> skipped >> skipped >> read;
    fields >> skipped >> skipped >> skipped >> written;
    if (!fields || (read == 0 && written == 0) || !is_disk(root, name)) continue;
    counters.disk_read += read * kSectorBytes;
    counters.disk_written += written * kSectorBytes;
  }
}

// A line of names that begins with "Tcp:", and one of their values.
void read_tcp(const std::string& root, HostCounters& counters) {
  std::ifstream in(root + "/proc/net/snmp");
  std::string names;
  std::string values;
  while (std::getline(in, names) && !names.starts_with("Tcp:")) {
  }
  if (!std::getline(in, values)) return;
  std::istringstream heads(names);
  std::istringstream numbers(values);
  std::string name;
  for (std::string value; heads >> name && numbers >> value;) {
    if (name == "OutSegs") counters.tcp_sent = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "RetransSegs") counters.tcp_resent = std::strtoull(value.c_str(), nullptr, 10);
  }
}

double rate(uint64_t before, uint64_t now, double seconds) {
  return now > before ? static_cast<double>(now - before) / seconds : 0;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123"
std::optional<uint64_t> read_memory_stall(const std::string& root) {
  std::ifstream in(root + "/proc/pressure/memory");
  std::string word;
  while (in >> word) {
    if (word.starts_with("total=")) return std::strtoull(word.c_str() + 6, nullptr, 10);
  }
  return std::nullopt;
}

template <class T>
std::optional<T> number_in_file(const std::string& path) {
  std::ifstream in(path);
  T value{};
  if (in >> value) return value;
  return std::nullopt;
}

// Clock and temperature limits of the cores; virtual machines usually hide both.
void read_clocks(const std::string& root, HostCounters& counters) {
  double clocks = 0;
  size_t known = 0;
  for (size_t core = 0; core < counters.cores.size(); ++core) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(core);
    const auto kilohertz = number_in_file<double>(folder + "/cpufreq/scaling_cur_freq");
    const auto throttled =
        number_in_file<uint64_t>(folder + "/thermal_throttle/core_throttle_count");
    if (throttled) counters.throttled = counters.throttled.value_or(0) + *throttled;
    if (kilohertz) {
      clocks += *kilohertz / 1000;
      ++known;
    }
    if (!throttled && !kilohertz) return;  // hidden: not asked for the other cores
  }
  if (known > 0) counters.clock = clocks / static_cast<double>(known);
}

}  // namespace

HostCounters read_host_counters(const std::string& root) {
  HostCounters counters;
  counters.when = std::chrono::steady_clock::now();
  read_cores(root, counters);
  read_interfaces(root, counters);
  read_memory(root, counters);
  read_disks(root, counters);
  read_tcp(root, counters);
  counters.memory_stall = read_memory_stall(root);
  read_clocks(root, counters);
  return counters;
}

SampleRecord sample_between(const HostCounters& before, const HostCounters& now,
                            const std::string& used) {
  SampleRecord sample;
  sample.seconds = std::chrono::duration<double>(now.when - before.when).count();
  const double seconds = std::max(sample.seconds, 1e-3);
  for (size_t i = 0; i < std::min(before.cores.size(), now.cores.size()); ++i) {
    const auto all = static_cast<double>(now.cores[i].all - before.cores[i].all);
    const double busy = rate(before.cores[i].busy, now.cores[i].busy, 1);
    sample.cores.push_back(all > 0 ? std::min(100.0, 100 * busy / all) : 0);
  }
  sample.memory_used = now.memory_used;
  sample.memory_total = now.memory_total;
  if (before.memory_stall && now.memory_stall) {
    const double stalled = rate(*before.memory_stall, *now.memory_stall, 1e6 * seconds);
    sample.memory_pressure = std::min(100.0, 100 * stalled);
  }
  sample.clock = now.clock;
  if (before.throttled && now.throttled) {
    sample.throttled = *now.throttled - std::min(*now.throttled, *before.throttled);
  }
  sample.tcp_sent = now.tcp_sent - std::min(now.tcp_sent, before.tcp_sent);
  sample.tcp_resent = now.tcp_resent - std::min(now.tcp_resent, before.tcp_resent);
  sample.disk_read = rate(before.disk_read, now.disk_read, seconds);
  sample.disk_written = rate(before.disk_written, now.disk_written, seconds);
  for (const auto& interface : now.interfaces) {
    const auto old = std::find_if(before.interfaces.begin(), before.interfaces.end(),
                                  [&](const auto& i) { return i.name == interface.name; });
    if (old == before.interfaces.end()) continue;
    sample.interfaces.push_back({.name = interface.name,
                                 .in = rate(old->in, interface.in, seconds),
                                 .out = rate(old->out, interface.out, seconds),
                                 .speed = interface.speed,
                                 .used = interface.name == used});
  }
  return sample;
}

}  // namespace reigen
