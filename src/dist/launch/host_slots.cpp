#include "dist/launch/host_slots.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "config/schema.h"

namespace reigen {

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t colon = entry.rfind(':');
    HostSlots slots{entry.substr(0, colon), 1};
    if (slots.host.empty() || slots.host.starts_with('-')) {
      throw ConfigError(format("--hosts '{}' is not a list of hosts; write vm1:2,vm2:2", text));
    }
    if (colon != std::string::npos) {
      constexpr int kMostOnAHost = 1024;
      try {
        slots.workers = static_cast<int>(parse_integer(entry.substr(colon + 1), 1, kMostOnAHost));
      } catch (const ConfigError& e) {
        throw ConfigError(
            format("--hosts {}: the number of workers in '{}': {}", text, entry, e.what()));
      }
    }
    hosts.push_back(slots);
  }
  return hosts;
}

}  // namespace reigen
