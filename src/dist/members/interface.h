// Which network interface data leaves by: the one that reaches the others, or the one named.
#pragma once

#include <string>
#include <vector>

namespace reigen {

struct NetworkInterface {
  std::string name;     // eth0
  std::string address;  // one of its addresses, as numbers
  int64_t speed = 0;    // Mbit/s as the driver tells; 0 where it does not (loopback, virtual ones)
};

// All that are up, an entry for each address.
std::vector<NetworkInterface> network_interfaces();

// The one that packets to `peer` leave by; throws CommError when there is no way.
NetworkInterface interface_towards(const std::string& peer);

NetworkInterface interface_with(const std::string& address);  // a local one

// The named one, with an address of the kind `like` is (IPv4 or IPv6), since both ends must speak
// the same. Throws ConfigError, listing what there is.
NetworkInterface interface_named(const std::string& name, const std::string& like);

// "eth0 (10.0.0.1, 10,000 Mbit/s)"
std::string describe(const NetworkInterface& interface);

}  // namespace reigen
