// The live page of a run, served over HTTP. The only user of cpp-httplib.
//
// It reads only the run's files, so it shows running and finished runs, on this machine or on a
// shared disk. Any address but loopback requires a token: the page shows text of the training data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

struct LiveServerOptions {
  std::string run;
  std::string address = "127.0.0.1";
  int port = 0;              // 0 for 6810, or a free port when that is in use
  std::string token;         // empty: generated where the address requires one
  bool beside_work = false;  // served by the training process: at a low priority
};

class LiveServer {
 public:
  // Starts to listen, on a thread of its own. Throws IoError when it cannot.
  explicit LiveServer(LiveServerOptions options);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  std::string url() const;  // with the token

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace reigen
