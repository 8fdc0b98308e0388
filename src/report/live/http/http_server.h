// A small HTTP server for one page: one thread waits for all connections, each limited in bytes and
// time.
//
// A connection carries one request and is closed after the answer. The number of connections is
// bounded, in all and for each client; a new one replaces the oldest that has not sent its request
// yet, so that idle clients exclude no other. Slow work runs on other threads (WorkLane) and holds
// no connection up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dist/net/socket.h"
#include "dist/net/strangers.h"
#include "report/live/http/http_request.h"
#include "report/live/http/work_lane.h"

namespace reigen {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string policy = "default-src 'none'";  // Content-Security-Policy
  std::string body;
};

struct HttpLimits {
  size_t connections = 64;                     // a browser opens up to six
  size_t per_client = 32;                      // so that one client leaves room for the others
  std::chrono::milliseconds to_read{5'000};    // from the connection to the end of its request
  std::chrono::milliseconds to_write{30'000};  // the whole answer
  std::chrono::milliseconds to_drain{1'000};   // a refused client may still be sending
};

class HttpServer {
 public:
  // The answer to a request: `response`, or the result of `work` on `lane` (not null) if there is
  // one.
  struct Reply {
    HttpResponse response;
    std::function<HttpResponse()> work;
    WorkLane* lane = nullptr;
  };
  using Handler = std::function<Reply(const HttpRequest&)>;

  HttpServer(Socket listener, Handler handler, HttpLimits limits = {});

  // Serves until `ended` returns true; it is asked at least five times per second.
  void run(const std::function<bool()>& ended);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kDraining, kReading, kWriting, kWorking };  // the first are evicted first
  struct Connection {
    Socket socket;
    std::string client;
    State state = State::kReading;
    Clock::time_point deadline;
    bool head = false;
    bool refused = false;
    std::string in;
    std::string out;
    size_t sent = 0;     // bytes of `out`
    size_t drained = 0;  // bytes after a refusal
  };
  using Connections = std::map<uint64_t, Connection>;  // by age

  void accept_all();
  void make_room(const std::string& client);
  void attend(uint64_t id, short events);
  bool read_request(uint64_t id, Connection& connection);
  void answer(uint64_t id, Connection& connection, const ParsedRequest& parsed);
  void respond(Connection& connection, const HttpResponse& response);
  bool write_response(Connection& connection);
  bool drain(Connection& connection);
  void collect_work();
  void close_late();

  Socket listener_;
  Handler handler_;
  HttpLimits limits_;
  Connections connections_;
  uint64_t next_id_ = 0;
  AcceptPause accept_pause_;
  // Outlives the server if a lane still works for a connection of it.
  struct Finished {
    std::mutex mutex;
    std::vector<std::pair<uint64_t, HttpResponse>> responses;
    WakePipe wake;
  };
  std::shared_ptr<Finished> finished_ = std::make_shared<Finished>();
};

}  // namespace reigen
