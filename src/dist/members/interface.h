// The network interface for data between workers: the one with a route to the other hosts, or the
// one named by --interface.
#pragma once

#include <string>
#include <vector>

namespace reigen {

struct NetworkInterface {
  std::string name;     // eth0
  std::string address;  // one of its addresses, in numeric form
  int64_t speed = 0;    // Mbit/s reported by the driver; 0 if unknown (loopback, virtual)
};

// All interfaces that are up, an entry for each address.
std::vector<NetworkInterface> network_interfaces();

// The interface that packets to `peer` leave by; throws CommError if there is no route.
NetworkInterface interface_towards(const std::string& peer);

NetworkInterface interface_with(const std::string& address);  // the one with this local address

// The named interface, with an address of the family of `like` (IPv4 or IPv6): both ends need the
// same. Throws ConfigError with a list of all interfaces.
NetworkInterface interface_named(const std::string& name, const std::string& like);

// "eth0 (10.0.0.1, 10,000 Mbit/s)"
std::string describe(const NetworkInterface& interface);

}  // namespace reigen
