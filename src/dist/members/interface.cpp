#include "dist/members/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "dist/net/socket.h"

namespace reigen {
namespace {

bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

int64_t speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int64_t speed = 0;
  return file >> speed && speed > 0 ? speed : 0;
}

std::string list_of(const std::vector<NetworkInterface>& interfaces) {
  std::string text;
  for (const auto& i : interfaces) text += (text.empty() ? "" : ", ") + describe(i);
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    throw IoError(format("cannot list network interfaces: {}", errno_text(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const ifaddrs* i = raw; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char host[NI_MAXHOST];
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(i->ifa_addr, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    found.push_back({i->ifa_name, host, speed_of(i->ifa_name)});
  }
  // IPv4 first: an interface usually has one IPv4 address and several IPv6 addresses.
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return is_v6(a.address) < is_v6(b.address);
  });
  return found;
}

NetworkInterface interface_towards(const std::string& peer) {
  return interface_with(address_towards(peer));
}

NetworkInterface interface_with(const std::string& address) {
  const auto interfaces = network_interfaces();
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& i) { return i.address == address; });
  // The loopback interface has more addresses than it lists: 127.0.0.2.
  return found != interfaces.end() ? *found : NetworkInterface{"lo", address, 0};
}

NetworkInterface interface_named(const std::string& name, const std::string& like) {
  const auto interfaces = network_interfaces();
  for (const auto& i : interfaces) {
    if (i.name == name && is_v6(i.address) == is_v6(like)) return i;
  }
  const bool known = std::any_of(interfaces.begin(), interfaces.end(),
                                 [&](const auto& i) { return i.name == name; });
  throw ConfigError(format("--interface: '{}' {} on {}; choose one of: {}", name,
                           known ? format("has no {} address", is_v6(like) ? "IPv6" : "IPv4")
                                 : "does not exist or is down",
                           host_name(), list_of(interfaces)));
}

std::string describe(const NetworkInterface& interface) {
  const std::string speed =
      interface.speed > 0
          ? format(", {} Mbit/s", with_commas(static_cast<uint64_t>(interface.speed)))
          : "";
  return format("{} ({}{})", interface.name, interface.address, speed);
}

}  // namespace reigen
