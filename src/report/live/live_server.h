// The live page of a run, served over HTTP. The only door to cpp-httplib.
//
// It reads the run's files and nothing else, so it shows a run that is going on, on this machine or
// on a shared disk, and one that has ended. On any address but the machine's own a token is needed:
// a page shows text of the training data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

struct LiveServerOptions {
  std::string run;
  std::string address = "127.0.0.1";
  int port = 0;              // 0 for 6810, or any that is free when that is taken
  std::string token;         // empty: made up where the address needs one
  bool beside_work = false;  // served by the training process: at a low priority
};

class LiveServer {
 public:
  // Listens from now on, on a thread of its own. Throws IoError when it cannot.
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
