#include "dist/net/strangers.h"

#include <arpa/inet.h>

#include "base/hash.h"

namespace reigen {

std::string network_of(const std::string& address) {
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return address;
  constexpr size_t kPrefixBytes = 8;
  return hex_encode({reinterpret_cast<const char*>(v6.s6_addr), kPrefixBytes});
}

}  // namespace reigen
