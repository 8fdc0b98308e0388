#include "dist/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, int port, bool to_listen, std::string& why) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const auto look_up = [&](const char* name) {
    return getaddrinfo(name, std::to_string(port).c_str(), &hints, &found);
  };
  int failed = look_up(host.empty() ? nullptr : host.c_str());
  // A root without /etc/hosts does not know the name that every machine has (RFC 6761).
  if (failed != 0 && host == "localhost") failed = look_up("127.0.0.1");
  if (failed != 0) why = format("{}: {}", host, gai_strerror(failed));
  return {failed == 0 ? found : nullptr, &freeaddrinfo};
}

void set_nodelay_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string numeric_address(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

Endpoint endpoint_of(const sockaddr_storage& address, socklen_t size) {
  const int port = ntohs(address.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return {numeric_address(address, size), port};
}

Endpoint parse_endpoint(std::string_view text) {
  const auto wrong = [&] {
    return ConfigError(format("'{}' is not HOST:PORT; write vm1:4711 or [::1]:4711", text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) throw wrong();
  Endpoint endpoint;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  endpoint.host = host;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (error != std::errc() || end != digits.data() + digits.size() || endpoint.port < 1 ||
      endpoint.port > 65535 || host.empty()) {
    throw wrong();
  }
  return endpoint;
}

}  // namespace

std::string text_of(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? format("[{}]:{}", endpoint.host, endpoint.port)
            : format("{}:{}", endpoint.host, endpoint.port);
}

std::vector<Endpoint> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  while (true) {
    const size_t comma = text.find(',');
    endpoints.push_back(parse_endpoint(text.substr(0, comma)));
    if (comma == std::string_view::npos) return endpoints;
    text = text.substr(comma + 1);
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket listen_on(const std::string& address, int port) {
  std::string why;
  const Addresses addresses = resolve(address, port, true, why);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (!socket.open()) continue;
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    constexpr int kBacklog = 128;
    if (bind(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 && listen(socket.fd(), kBacklog) == 0) {
      fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
      return socket;
    }
    why = errno_text(errno);
  }
  throw CommError(format("cannot listen on {}: {}", text_of({address, port}), why));
}

int port_of(const Socket& listener) { return local_endpoint(listener).port; }

Socket accept_from(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.open()) set_nodelay_nonblocking(socket.fd());
  return socket;
}

Socket connect_to(const Endpoint& endpoint, std::chrono::milliseconds within, std::string& why) {
  const Addresses addresses = resolve(endpoint.host, endpoint.port, false, why);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(
        ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
    if (!socket.open()) continue;
    int failed = connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      pollfd writable{socket.fd(), POLLOUT, 0};
      failed = ETIMEDOUT;
      if (poll(&writable, 1, static_cast<int>(within.count())) > 0) {
        socklen_t size = sizeof failed;
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed, &size);
      }
    }
    if (failed == 0) {
      set_nodelay_nonblocking(socket.fd());
      return socket;
    }
    why = errno_text(failed);
  }
  return {};
}

Socket start_connect(const Endpoint& endpoint, int& error_number) {
  std::string why;
  const Addresses addresses = resolve(endpoint.host, endpoint.port, false, why);
  const addrinfo* a = addresses.get();
  error_number = EADDRNOTAVAIL;
  if (a == nullptr) return {};
  Socket socket(
      ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
  if (socket.open() &&
      (connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS)) {
    return socket;
  }
  error_number = errno;
  return {};
}

int finish_connect(const Socket& socket) {
  int failed = 0;
  socklen_t size = sizeof failed;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed, &size);
  if (failed == 0) set_nodelay_nonblocking(socket.fd());
  return failed;
}

void probe_when_idle(const Socket& socket, std::chrono::milliseconds silence) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(socket.fd(), level, option, &value, sizeof value);
  };
  // Half the time without data, then four probes in the other half.
  const auto seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(silence).count());
  constexpr int kProbes = 4;
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 2 / kProbes));
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Acknowledgement acknowledgement_of(const Socket& socket) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {info.tcpi_unacked > 0 || info.tcpi_probes > 0,
          std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

void reset_connection(const Socket& socket) {
  sockaddr none = {};
  none.sa_family = AF_UNSPEC;  // "dissolves the association": TCP sends a reset
  static_cast<void>(connect(socket.fd(), &none, sizeof none));
}

Endpoint local_endpoint(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return endpoint_of(address, size);
}

Endpoint peer_endpoint(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return endpoint_of(address, size);
}

std::string local_address(const Socket& socket) { return local_endpoint(socket).host; }
std::string peer_address(const Socket& socket) { return peer_endpoint(socket).host; }

// Connecting a datagram socket sends nothing; it only looks up the route.
Socket routed_towards(const std::string& peer) {
  std::string why;
  constexpr int kAnyPort = 9;
  const Addresses addresses = resolve(peer, kAnyPort, false, why);
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.open() && connect(socket.fd(), a->ai_addr, a->ai_addrlen) == 0) return socket;
    why = errno_text(errno);
  }
  throw CommError(format("no route to {}: {}", peer, why));
}

std::string address_towards(const std::string& peer) { return local_address(routed_towards(peer)); }

bool is_this_host(const std::string& peer) {
  const Socket socket = routed_towards(peer);
  return local_address(socket) == peer_address(socket);
}

bool read_available(const Socket& socket, std::string& into, size_t most) {
  char buffer[16384];
  while (into.size() < most) {
    const ssize_t got = read(socket.fd(), buffer, std::min(sizeof buffer, most - into.size()));
    if (got > 0) {
      into.append(buffer, static_cast<size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
  }
  return true;
}

bool write_available(const Socket& socket, std::string& from) {
  size_t done = 0;
  bool open = true;
  while (open && done < from.size()) {
    const char* data = from.data() + done;
    const size_t size = from.size() - done;
    ssize_t put = send(socket.fd(), data, size, MSG_NOSIGNAL);
    if (put < 0 && errno == ENOTSOCK) put = write(socket.fd(), data, size);
    if (put > 0) {
      done += static_cast<size_t>(put);
    } else if (errno != EINTR) {
      open = errno == EAGAIN || errno == EWOULDBLOCK;
      break;
    }
  }
  from.erase(0, done);
  return open;
}

WakePipe::WakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw IoError(format("cannot make a pipe: {}", errno_text(errno)));
  }
  read_ = Socket(ends[0]);
  write_ = Socket(ends[1]);
}

void WakePipe::wake() const {
  const char byte = 0;
  // A full pipe wakes the reader just as well.
  if (write(write_.fd(), &byte, 1) < 0) return;
}

void WakePipe::drain() const {
  char buffer[64];
  while (read(read_.fd(), buffer, sizeof buffer) > 0) {
  }
}

}  // namespace reigen
