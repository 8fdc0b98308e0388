// The first messages of a worker that connects to a job: both sides prove that they know the job's
// token, and neither sends it. The thread that joins waits for each answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/json/json.h"
#include "dist/net/channel.h"

namespace reigen {

using HandshakeClock = std::chrono::steady_clock;

// Not negative.
std::chrono::milliseconds left_until(HandshakeClock::time_point deadline);

class Handshake {
 public:
  explicit Handshake(Channel channel) : channel_(std::move(channel)) {}

  void send(const Json& message);
  // Nothing if the connection closed, the message is malformed or too large, or none came in time.
  std::optional<Json> receive(HandshakeClock::time_point deadline);

  // The reason why no message came.
  std::string silent() const;
  // The server knows the token: larger messages are accepted from now on.
  void set_proved() { proved_ = true; }

  const Channel& channel() const { return channel_; }
  Channel take(std::string& unread);

 private:
  Channel channel_;
  std::string in_;
  std::string out_;
  bool proved_ = false;
};

struct Refused {
  std::string text;
  bool permanent = false;  // a retry is useless
};

// With the rendezvous of a job that starts. Throws Refused.
void prove(Handshake& handshake, const std::string& token, HandshakeClock::time_point deadline);
// With the standby port of a running job; returns the id of its first forming, which it names.
std::string prove_to_running_job(Handshake& handshake, const std::string& token,
                                 HandshakeClock::time_point deadline);

}  // namespace reigen
