#include "report/live/http/http_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>

#include "base/format.h"

namespace reigen {
namespace {

constexpr int kTick = 200;                // milliseconds
constexpr size_t kMostDrained = 1 << 18;  // bytes
constexpr int kMostAccepted = 16;  // per turn, so that a flood of connections delays no client

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Bad Request";
  }
}

std::string refusal_text(int status) {
  switch (status) {
    case 405:
      return "only GET and HEAD are served\n";
    case 413:
      return "a request has no body here\n";
    case 431:
      return format("a request has at most {} bytes and {} header lines\n", kMostRequestBytes,
                    kMostHeaderLines);
    case 505:
      return "HTTP/1.1 and HTTP/1.0 are served\n";
    default:
      return "this is not an HTTP/1.1 request for a path of this host\n";
  }
}

std::string head_of(const HttpResponse& response) {
  return format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}"
      "Content-Security-Policy: {}\r\nReferrer-Policy: no-referrer\r\n"
      "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n"
      "Cache-Control: no-store\r\n\r\n",
      response.status, reason_of(response.status), response.type, response.body.size(),
      response.status == 405 ? "Allow: GET, HEAD\r\n" : "", response.policy);
}

// The address of a client; of IPv6 its network, because a host has a whole one of 64 bits.
std::string client_of(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET6) {
    constexpr size_t kNetworkBytes = 8;
    const auto* bytes = reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr.s6_addr;
    const bool mapped =
        IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr);
    return {reinterpret_cast<const char*>(bytes), mapped ? sizeof(in6_addr) : kNetworkBytes};
  }
  const auto* bytes = &reinterpret_cast<const sockaddr_in*>(&from)->sin_addr;
  return {reinterpret_cast<const char*>(bytes), sizeof *bytes};
}

}  // namespace

HttpServer::HttpServer(Socket listener, Handler handler, HttpLimits limits)
    : listener_(std::move(listener)), handler_(std::move(handler)), limits_(limits) {}

void HttpServer::run(const std::function<bool()>& ended) {
  while (!ended()) {
    std::vector<pollfd> waiting = {{finished_->wake.fd(), POLLIN, 0}};
    std::vector<uint64_t> ids;
    for (const auto& [id, connection] : connections_) {
      short events = 0;
      if (connection.state == State::kWriting) events = POLLOUT;
      if (connection.state == State::kReading || connection.state == State::kDraining) {
        events = POLLIN;
      }
      waiting.push_back({connection.socket.fd(), events, 0});
      ids.push_back(id);
    }
    const bool accepts = accept_pause_.over();
    waiting.push_back({accepts ? listener_.fd() : -1, POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), kTick) > 0) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (waiting[i + 1].revents != 0) attend(ids[i], waiting[i + 1].revents);
      }
      if (waiting.back().revents != 0) accept_all();
    }
    collect_work();
    close_late();
  }
}

void HttpServer::accept_all() {
  for (int i = 0; i < kMostAccepted; ++i) {
    sockaddr_storage from = {};
    socklen_t size = sizeof from;
    Socket socket(accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&from), &size,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) return accept_pause_.failed(errno);
    Connection connection;
    connection.client = client_of(from);
    make_room(connection.client);
    connection.socket = std::move(socket);
    connection.deadline = Clock::now() + limits_.to_read;
    connections_.emplace(next_id_++, std::move(connection));
  }
}

void HttpServer::make_room(const std::string& client) {
  auto is_theirs = [&](const auto& entry) { return entry.second.client == client; };
  const auto theirs = std::count_if(connections_.begin(), connections_.end(), is_theirs);
  const bool too_many_theirs = static_cast<size_t>(theirs) >= limits_.per_client;
  if (!too_many_theirs && connections_.size() < limits_.connections) return;
  auto worst = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (too_many_theirs && !is_theirs(*at)) continue;
    if (worst == connections_.end() || at->second.state < worst->second.state) worst = at;
  }
  if (worst != connections_.end()) connections_.erase(worst);
}

void HttpServer::attend(uint64_t id, short events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  bool open = true;
  if (connection.state == State::kReading) {
    open = read_request(id, connection);
  } else if (connection.state == State::kWriting) {
    open = write_response(connection);
  } else if (connection.state == State::kDraining) {
    open = drain(connection);
  } else {
    open = (events & (POLLERR | POLLHUP | POLLNVAL)) == 0;
  }
  if (!open) connections_.erase(id);
}

bool HttpServer::read_request(uint64_t id, Connection& connection) {
  const bool open = read_available(connection.socket, connection.in, kMostRequestBytes);
  const ParsedRequest parsed = parse_request(connection.in);
  if (parsed.incomplete()) return open;
  connection.in.clear();
  answer(id, connection, parsed);
  return connection.state != State::kWriting || write_response(connection);
}

void HttpServer::answer(uint64_t id, Connection& connection, const ParsedRequest& parsed) {
  if (!parsed.request) {
    connection.refused = true;
    return respond(connection, {.status = parsed.refusal, .body = refusal_text(parsed.refusal)});
  }
  connection.head = parsed.request->head;
  Reply reply = handler_(*parsed.request);
  if (!reply.work) return respond(connection, reply.response);
  connection.state = State::kWorking;
  const bool accepted = reply.lane->add([id, work = std::move(reply.work), finished = finished_] {
    HttpResponse response;
    try {
      response = work();
    } catch (const std::exception& e) {
      response = {.status = 503, .body = std::string(e.what()) + "\n"};
    }
    const std::lock_guard lock(finished->mutex);
    finished->responses.emplace_back(id, std::move(response));
    finished->wake.wake();
  });
  if (!accepted) respond(connection, {.status = 503, .body = "too many requests\n"});
}

void HttpServer::respond(Connection& connection, const HttpResponse& response) {
  connection.out = head_of(response);
  if (!connection.head) connection.out += response.body;
  connection.state = State::kWriting;
  connection.deadline = Clock::now() + limits_.to_write;
}

// False once the connection is to be closed. Unread bytes of a refused client would make the kernel
// reset the connection, and the client would not see why.
bool HttpServer::write_response(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const ssize_t put = send(connection.socket.fd(), connection.out.data() + connection.sent,
                             connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    connection.sent += static_cast<size_t>(put);
  }
  if (!connection.refused) return false;
  shutdown(connection.socket.fd(), SHUT_WR);
  connection.state = State::kDraining;
  connection.deadline = Clock::now() + limits_.to_drain;
  return true;
}

bool HttpServer::drain(Connection& connection) {
  std::string bytes;
  const bool open = read_available(connection.socket, bytes, kMostRequestBytes);
  connection.drained += bytes.size();
  return open && connection.drained < kMostDrained;
}

void HttpServer::collect_work() {
  finished_->wake.drain();
  std::vector<std::pair<uint64_t, HttpResponse>> responses;
  {
    const std::lock_guard lock(finished_->mutex);
    responses.swap(finished_->responses);
  }
  for (const auto& [id, response] : responses) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // the client has left
    respond(found->second, response);
    if (!write_response(found->second)) connections_.erase(found);
  }
}

void HttpServer::close_late() {
  const auto now = Clock::now();
  std::erase_if(connections_, [&](const auto& entry) {
    return entry.second.state != State::kWorking && now > entry.second.deadline;
  });
}

}  // namespace reigen
