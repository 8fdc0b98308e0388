#include "dist/launch/hosts/host_slots.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "config/schema.h"

namespace reigen {

HostSlots parse_host(const std::string& entry) {
  const size_t colon = entry.rfind(':');
  HostSlots slots{entry.substr(0, colon), 1};
  if (slots.host.empty() || slots.host.starts_with('-')) {
    throw ConfigError(format("'{}' names no host; write vm1 or vm1:2", entry));
  }
  if (colon == std::string::npos) return slots;
  constexpr int kMostOnAHost = 1024;
  try {
    slots.workers = static_cast<int>(parse_integer(entry.substr(colon + 1), 1, kMostOnAHost));
  } catch (const ConfigError& e) {
    throw ConfigError(format("the number of workers in '{}': {}", entry, e.what()));
  }
  return slots;
}

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    try {
      hosts.push_back(parse_host(text.substr(begin, comma - begin)));
    } catch (const ConfigError& e) {
      throw ConfigError(format("--hosts {}: {}", text, e.what()));
    }
    begin = comma + 1;
  }
  return hosts;
}

std::string text_of(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    text += format("{}{}:{}", text.empty() ? "" : ",", host.host, host.workers);
  }
  return text;
}

}  // namespace reigen
