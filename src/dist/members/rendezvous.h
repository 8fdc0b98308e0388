// A member's side of the rendezvous: joining a job, and the control channel while it runs.
//
// Heartbeats, stop requests and errors travel here, apart from the data, so that a worker that
// died, hangs or is cut off is noticed and named everywhere within a bounded time even while all
// others wait for data. Losing the member that hosts the rendezvous is noticed the same way.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/group/comm_status.h"
#include "dist/group/key_value.h"
#include "dist/members/socket.h"

namespace reigen {

struct Member {
  int rank = 0;
  int old_rank = 0;  // what it joined as; another one when fewer came than were asked
  std::string host;
  std::string address;  // of the interface it chose for data
  int port = 0;         // where it would host the next rendezvous

  // The same for members of one machine. Two containers may have one name, but not one address.
  std::string machine() const { return host + " " + address; }
};

struct JoinOptions {
  std::vector<Endpoint> at;  // tried in turn until one is the job's
  std::string token;
  int rank = 0;
  int size = 1;
  int64_t epoch = 0;
  std::string host;     // this machine's name; empty to ask the system
  std::string address;  // for data; empty for that of the way to the rendezvous
  int port = 0;         // of this member's standby listener
  std::map<std::string, std::string> facts;  // all members must bring the same
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds silence{10'000};
};

// What a member told everybody.
struct Notice {
  int rank = -1;
  std::string host;
  std::string text;
};

class Rendezvous : public KeyValue {
 public:
  // Returns when everybody is there. Throws CommError: nobody answers, someone is missing, the
  // members do not fit together, the token is wrong; the message names ranks and hosts.
  explicit Rendezvous(const JoinOptions& options);
  ~Rendezvous() override;  // a loss to the others, unless it has left
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const;
  int size() const;
  const std::vector<Member>& members() const;
  const std::string& local_address() const;  // the way to the rendezvous leaves from here

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds within) override;

  // Everybody hears of it, this member too.
  void request_stop(const std::string& reason);
  void report_error(const std::string& text);

  // The first of each that was heard of, if any.
  std::optional<CommStatus> loss() const;
  std::optional<Notice> stop_request() const;
  std::optional<Notice> first_error() const;

  // Called once with the first loss, on the control thread, or here when it was before. Null takes
  // it back, and waits for a call under way.
  void on_loss(std::function<void(const CommStatus&)> call);
  // Waits for the loss that others may know of better; nothing when none was heard of in time.
  std::optional<CommStatus> wait_for_loss(std::chrono::milliseconds within) const;

  // From now on the end of this connection is no loss. Idempotent.
  void leave();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
