#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

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

// The number a file starts with; none for "max" or a file that is not there.
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

// The least room in a group and in those around it. In a container the path may be the host's and
// not exist here; its limit is then at the mount itself, the last one looked at.
uint64_t room_up_from(const std::string& mount, std::string group, const GroupFiles& files) {
  uint64_t room = kNoLimit;
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    room = std::min(room, room_in(mount + group, files));
    if (group.empty()) return room;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

// Lines of /proc/self/cgroup: "0::/path" in version 2, "7:memory:/path" in version 1.
uint64_t group_room(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  uint64_t room = kNoLimit;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      room = std::min(room, room_up_from(root + "/sys/fs/cgroup", group, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      room = std::min(room, room_up_from(root + "/sys/fs/cgroup/memory", group, kVersion1));
    }
  }
  return room;
}

}  // namespace

ProcessMemory process_memory() {
  const std::string status = "/proc/self/status";
  return {.resident_bytes = named_number(status, "VmRSS:").value_or(0) * 1024,
          .peak_resident_bytes = named_number(status, "VmHWM:").value_or(0) * 1024};
}

uint64_t available_memory(const std::string& root) {
  const uint64_t machine = named_number(root + "/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  return std::min(machine, group_room(root));
}

}  // namespace reigen
