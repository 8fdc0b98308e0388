#include "report/live/page_listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr int kUsualPort = 6810;

// A closed socket if it cannot, with the reason in `error_number`; 0 stands for no such address.
Socket try_listen(const std::string& address, int port, int& error_number) {
  error_number = 0;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket socket(
        ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
    const int on = 1;
    constexpr int kBacklog = 128;
    if (socket.open() && setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 && listen(socket.fd(), kBacklog) == 0) {
      return socket;
    }
    error_number = errno;
  }
  return {};
}

}  // namespace

Socket listen_for_page(const std::string& address, int port) {
  int error_number = 0;
  Socket socket = try_listen(address, port == 0 ? kUsualPort : port, error_number);
  if (!socket.open() && port == 0) socket = try_listen(address, 0, error_number);
  if (socket.open()) return socket;
  if (error_number == EADDRINUSE) {
    throw IoError(
        format("port {} of {} is in use by another program; choose a different port, or 0 for a "
               "free one",
               port, address));
  }
  if (error_number == 0 || error_number == EADDRNOTAVAIL) {
    throw IoError(format(
        "cannot listen on {}: it is not an address of this host; choose a different one", address));
  }
  throw IoError(format("cannot listen on port {} of {}: {}; choose a different address or port",
                       port, address, errno_text(error_number)));
}

}  // namespace reigen
