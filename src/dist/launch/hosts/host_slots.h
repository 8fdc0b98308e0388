// The hosts of a job, each with its number of workers.
#pragma once

#include <string>
#include <vector>

namespace reigen {

struct HostSlots {
  std::string host;  // the name given to ssh
  int workers = 1;
  bool operator==(const HostSlots&) const = default;
};

// "vm1:2", or "vm1" for one worker; throws ConfigError.
HostSlots parse_host(const std::string& entry);
// "vm1:2,vm2" is two workers on vm1 and one on vm2; throws ConfigError.
std::vector<HostSlots> parse_hosts(const std::string& text);
std::string text_of(const std::vector<HostSlots>& hosts);

}  // namespace reigen
