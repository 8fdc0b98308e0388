// TCP sockets. Channel (channel.h) adds encryption.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"

namespace reigen {

struct Endpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

// "10.0.0.1:4711", "[::1]:4711"
std::string text_of(const Endpoint& endpoint);
// A comma-separated list; throws ConfigError.
std::vector<Endpoint> parse_endpoints(std::string_view text);

// Owns a file descriptor.
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

// Port 0: any free port. Empty address: every interface. Throws CommError.
Socket listen_on(const std::string& address, int port);
int port_of(const Socket& listener);

// The next connection, or a closed socket if none is waiting. Non-blocking.
Socket accept_from(const Socket& listener);

// Tries all addresses of the name, each for at most `within`; a closed socket if none answers, with
// the reason in `why`.
Socket connect_to(const Endpoint& endpoint, std::chrono::milliseconds within, std::string& why);

// Begins a connection to a numeric address; a closed socket if that failed at once, with the number
// of the error. Once poll() announces POLLOUT, finish_connect() returns that number, or 0.
Socket start_connect(const Endpoint& endpoint, int& error_number);
int finish_connect(const Socket& socket);

// The kernel ends an idle connection whose other end answers no probe for about `silence`.
void probe_when_idle(const Socket& socket, std::chrono::milliseconds silence);
// Whether sent bytes wait for an acknowledgement, and the time since the last one of any kind.
struct Acknowledgement {
  bool outstanding = false;
  std::chrono::milliseconds since_last{0};
};
Acknowledgement acknowledgement_of(const Socket& socket);

// Ends a connection at once, also for the other end: unsent bytes are dropped. The descriptor stays
// valid, because a thread may wait for it.
void reset_connection(const Socket& socket);

// The addresses of the two ends of a connection, in numeric form.
std::string local_address(const Socket& socket);
std::string peer_address(const Socket& socket);
// The same with ports.
Endpoint local_endpoint(const Socket& socket);
Endpoint peer_endpoint(const Socket& socket);

// The local address that packets to `peer` leave from, by the routing table. Throws CommError.
std::string address_towards(const std::string& peer);
bool is_this_host(const std::string& peer);

// Appends the bytes available now, at most `most` in all. False once the connection is closed.
bool read_available(const Socket& socket, std::string& into, size_t most);
// Writes as much of `from` as possible now and removes it; also for pipes (SIGPIPE must be
// ignored). False once the connection is broken.
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
