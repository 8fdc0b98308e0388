// TCP for the control channel: few, small messages. Data between workers never passes here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"

namespace reigen {

struct Endpoint {
  std::string host;  // a name or an address, without brackets
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

// "10.0.0.1:4711", "[::1]:4711"
std::string text_of(const Endpoint& endpoint);
// Several, with commas between; throws ConfigError.
std::vector<Endpoint> parse_endpoints(std::string_view text);

// A file descriptor with an owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

// Port 0 takes any that is free. An empty address listens on every interface. Throws CommError.
Socket listen_on(const std::string& address, int port);
int port_of(const Socket& listener);

// The next connection, not blocking, or a closed socket when there is none.
Socket accept_from(const Socket& listener);

// Tries all addresses of the name, each for at most `within`; a closed socket when none answers,
// with the reason in `why`.
Socket connect_to(const Endpoint& endpoint, std::chrono::milliseconds within, std::string& why);

// The addresses of the two ends of a connection, as numbers.
std::string local_address(const Socket& socket);
std::string peer_address(const Socket& socket);

bool is_loopback(const std::string& address);

// The local address that packets to `peer` leave from; nothing is sent. Throws CommError.
std::string address_towards(const std::string& peer);
bool is_this_host(const std::string& peer);

// Appends what there is to read now. False once the other side has closed or failed.
bool read_available(const Socket& socket, std::string& into, size_t most);
// Takes from the front of `from` what can be written now, also to a pipe (with SIGPIPE ignored).
// False once the connection is broken.
bool write_available(const Socket& socket, std::string& from);

// Wakes a thread that waits in poll().
class WakePipe {
 public:
  WakePipe();
  void wake() const;
  void drain() const;
  int fd() const { return read_.fd(); }

 private:
  Socket read_;
  Socket write_;
};

}  // namespace reigen
