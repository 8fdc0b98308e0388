// A worker's connection to the rendezvous server: it joins the job through it, and the connection
// stays as the control channel while the job runs.
//
// Heartbeats and errors use this channel, apart from the data, so that a worker that died, hangs or
// is cut off is noticed and named on all ranks within a bounded time even while all of them wait
// for data. The loss of the worker that hosts the rendezvous is noticed the same way.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/members/forming/succession.h"
#include "dist/net/channel.h"
#include "dist/net/comm_status.h"

namespace reigen {

struct Member {
  WorkerId id = {};  // lasting, while ranks change
  int rank = 0;
  std::string host;
  std::string address;  // of its interface for data
  int port = 0;         // of its listener for data
  int standby = 0;      // of its standby port (standby.h); 0 in a job that is not elastic

  // Equal for workers of one machine. Two containers may share a name, but not an address.
  std::string machine() const { return host + " " + address; }
};

struct JoinOptions {
  std::vector<Endpoint> at;  // tried in turn until one proves to be the job's rendezvous
  std::string token;
  Encryption encryption;
  WorkerId worker = {};
  int rank = 0;
  int size = 1;
  int64_t epoch = 0;
  std::string host;     // this machine's name; empty for the system's
  std::string address;  // for data; empty for the local address of the control connection
  std::map<std::string, std::string> facts;  // must be equal on all workers
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};
};

// An error that a worker reported to all others.
struct ReportedError {
  int rank = -1;
  std::string host;
  std::string text;
};

// A worker that is lost or has left, by its control channel.
struct Departure {
  CommStatus status;         // the loss; ok for a worker that left in order
  bool unreachable = false;  // this worker itself hears nothing from it, though nothing was closed
};

// A connection to the server of a membership that was formed without a rendezvous (standby.h).
struct FormedControl {
  Channel channel;
  std::string unread;  // bytes that came already, and that were not sent yet
  std::string unsent;
  int rank = 0;
  int server_rank = 0;
  std::vector<Member> members;  // by rank
  std::string forming_id;
  std::chrono::milliseconds silence{10'000};
};

class ControlChannel {
 public:
  // Returns when all workers have joined. Throws CommError: no rendezvous found, a worker is
  // missing, facts differ, the token is wrong; the message names ranks and hosts.
  explicit ControlChannel(const JoinOptions& options);
  explicit ControlChannel(FormedControl formed);
  ~ControlChannel();  // without leave() the others count this worker as lost
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int rank() const;
  int size() const;
  const std::vector<Member>& members() const;
  const std::string& local_address() const;  // of the control connection
  const std::string& forming_id() const;     // random, the same on all workers

  // Small values that all workers share. get() waits until the key is set.
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds within);

  // Sends an error to all workers, including this one.
  void report_error(const std::string& text);

  // The first loss and the first error received, if any.
  std::optional<CommStatus> loss() const;
  std::optional<ReportedError> first_error() const;

  // `call` runs for each worker that is lost or leaves, on the control thread, or here for earlier
  // ones. Null unsubscribes and waits for a call in progress.
  void on_departure(std::function<void(const Departure&)> call);
  // The first loss; nothing if there was none within the time.
  std::optional<CommStatus> wait_for_loss(std::chrono::milliseconds within) const;

  // From now on the end of this connection is no loss. Idempotent.
  void leave();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
