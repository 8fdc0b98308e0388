#include "dist/net/strangers.h"

#include <arpa/inet.h>

#include <cerrno>

#include "base/hash.h"

namespace reigen {

void AcceptPause::failed(int error_number) {
  constexpr std::chrono::milliseconds kPause{100};
  const bool none = error_number == EAGAIN || error_number == EWOULDBLOCK ||
                    error_number == EINTR || error_number == ECONNABORTED;
  if (!none) until_ = std::chrono::steady_clock::now() + kPause;
}

std::string network_of(const std::string& address) {
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1) return address;
  constexpr size_t kPrefixBytes = 8;
  return hex_encode({reinterpret_cast<const char*>(v6.s6_addr), kPrefixBytes});
}

}  // namespace reigen
