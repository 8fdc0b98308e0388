#include "dist/members/control_channel.h"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "dist/members/handshake.h"
#include "dist/members/member_json.h"
#include "dist/net/message.h"
#include "dist/net/proof.h"
#include "dist/net/strangers.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectWithin{2'000};
// Time for a server to prove that it knows the token. Where there are several addresses, the first
// round is short and each round doubles the time: silent listeners of strangers on all but one of
// them do not use up --start-within.
constexpr milliseconds kFirstAnswerWithin{300};
constexpr milliseconds kAnswerWithin{5'000};

}  // namespace

class ControlChannel::Loop {
 public:
  explicit Loop(const JoinOptions& options) : options_(options) {
    if (options_.host.empty()) options_.host = host_name();
    join();
    thread_ = thread_without_signals([this] { run(); });
  }

  explicit Loop(FormedControl formed)
      : rank_(formed.rank),
        server_rank_(formed.server_rank),
        members_(std::move(formed.members)),
        forming_(std::move(formed.forming_id)),
        channel_(std::move(formed.channel)),
        in_(std::move(formed.unread)),
        out_(std::move(formed.unsent)) {
    options_.silence = formed.silence;
    thread_ = thread_without_signals([this] { run(); });
  }

  ~Loop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.wake();
    if (thread_.joinable()) thread_.join();
  }

  void send(const Json& message) {
    {
      std::lock_guard lock(mutex_);
      out_ += encode_message(message);
    }
    wake_.wake();
  }

  std::optional<std::string> get(const std::string& key, milliseconds within) {
    int64_t id = 0;
    {
      std::lock_guard lock(mutex_);
      id = next_id_++;
    }
    send({{"kind", "get"}, {"key", key}, {"id", id}});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [&] { return answers_.contains(id) || down_; });
    const auto answer = answers_.find(id);
    if (answer == answers_.end()) return std::nullopt;
    return hex_decode(answer->second);
  }

  void leave() {
    {
      std::lock_guard lock(mutex_);
      if (leaving_) return;
      leaving_ = true;
    }
    send({{"kind", "leave"}});
    flush();
  }

  // Waits until everything is sent: the process may be about to end.
  void flush() {
    std::unique_lock lock(mutex_);
    constexpr milliseconds kFlush{1'000};
    changed_.wait_for(lock, kFlush, [this] { return out_.empty() || down_; });
  }

  void on_departure(std::function<void(const Departure&)> call) {
    std::lock_guard calling(call_mutex_);
    on_departure_ = std::move(call);
    if (!on_departure_) return;
    for (const Departure& earlier : departures_) on_departure_(earlier);
  }

  std::optional<CommStatus> wait_for_loss(milliseconds within) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, within, [this] { return loss_.has_value() || down_; });
    return loss_;
  }

  template <class T>
  T locked(const T& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }

  const JoinOptions& options() const { return options_; }

  int rank_ = 0;
  int server_rank_ = 0;
  std::vector<Member> members_;
  std::string local_address_;
  std::string forming_;
  std::optional<CommStatus> loss_;
  std::optional<ReportedError> error_;

 private:
  void join();
  bool try_join(const Endpoint& endpoint, milliseconds answer_within, std::string& why,
                Clock::time_point deadline);
  void await_start(Handshake& handshake, Clock::time_point deadline);
  void read_members(const Json& formed);
  void run();
  void handle(const Json& message);
  void depart(const Departure& departure);
  void lose_server(const std::string& why, bool unreachable);
  void go_down();

  JoinOptions options_;
  Channel channel_;
  std::string in_;
  std::string out_;
  WakePipe wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::string> answers_;
  int64_t next_id_ = 0;
  std::mutex call_mutex_;  // locked during a call, so that unsubscribing waits for it; guards these
  std::function<void(const Departure&)> on_departure_;
  std::vector<Departure> departures_;
  bool leaving_ = false;
  bool stopping_ = false;
  bool down_ = false;  // the connection is closed
  bool warned_ = false;
  Clock::time_point heard_ = Clock::now();
  std::thread thread_;
};

void ControlChannel::Loop::join() {
  const auto deadline = Clock::now() + options_.start_within;
  std::string why = "no address is known";
  milliseconds answer_within = options_.at.size() > 1 ? kFirstAnswerWithin : kAnswerWithin;
  do {
    for (const Endpoint& endpoint : options_.at) {
      check_interrupt();
      if (try_join(endpoint, answer_within, why, deadline)) return;
      why = format("{} ({})", text_of(endpoint), why);
    }
    answer_within = std::min(2 * answer_within, kAnswerWithin);
    std::this_thread::sleep_for(kBetweenTries);
  } while (Clock::now() < deadline && !options_.at.empty());
  throw CommError(format("rank {} on {} found no rendezvous within {:.3g} s (--start-within): {}",
                         options_.rank, options_.host, seconds_of(options_.start_within), why));
}

bool ControlChannel::Loop::try_join(const Endpoint& endpoint, milliseconds answer_within,
                                    std::string& why, Clock::time_point deadline) {
  const milliseconds connect_within =
      std::min({kConnectWithin, answer_within, left_until(deadline)});
  Socket socket = connect_to(endpoint, connect_within, why);
  if (!socket.open()) return false;
  Handshake handshake(Channel(std::move(socket), options_.encryption, Channel::Side::kConnecting));
  try {
    prove(handshake, options_.token, std::min(deadline, Clock::now() + answer_within));
    local_address_ = reigen::local_address(handshake.channel().socket());
    Json facts = Json::object();
    for (const auto& [key, value] : options_.facts) facts[key] = value;
    handshake.send({{"kind", "join"},
                    {"worker", json_of(options_.worker)},
                    {"rank", options_.rank},
                    {"size", options_.size},
                    {"epoch", options_.epoch},
                    {"host", options_.host},
                    {"address", options_.address.empty() ? local_address_ : options_.address},
                    {"chosen", options_.address.empty() ? "by route" : "as asked"},
                    {"facts", facts}});
    await_start(handshake, deadline);
  } catch (const Refused& refused) {
    why = refused.text;
    if (refused.permanent) throw CommError(why);
    // Not proven by the token, so it may come from anyone: the job's rendezvous may still answer.
    if (!warned_ && options_.at.size() == 1) {
      warned_ = true;
      log_warning(format("{}: {}; trying again for {:.3g} s (--start-within)", text_of(endpoint),
                         why, seconds_of(left_until(deadline))));
    }
    return false;
  }
  channel_ = handshake.take(in_);
  return true;
}

void ControlChannel::Loop::await_start(Handshake& handshake, Clock::time_point deadline) {
  // The server's deadline started at a different time; after it the server sends a refusal.
  deadline = std::max(deadline, Clock::now()) + options_.start_within;
  while (true) {
    const auto message = handshake.receive(std::min(deadline, Clock::now() + options_.silence));
    const auto kind = message ? text_field(*message, "kind") : std::nullopt;
    if (!kind) throw Refused{"lost the worker that hosts the rendezvous", true};
    if (*kind == "refused") throw Refused{text_field(*message, "text").value_or(""), true};
    if (*kind == "formed") return read_members(*message);
  }
}

void ControlChannel::Loop::read_members(const Json& formed) {
  rank_ = static_cast<int>(number_field(formed, "rank").value_or(0));
  server_rank_ = static_cast<int>(number_field(formed, "host_rank").value_or(0));
  forming_ = text_field(formed, "forming").value_or("");
  for (const Json& m : formed.value("members", Json::array())) {
    const auto worker = worker_field(m, "worker");
    if (!worker) throw Refused{"the rendezvous sent a worker without a number", true};
    members_.push_back({.id = *worker,
                        .rank = static_cast<int>(number_field(m, "rank").value_or(0)),
                        .host = text_field(m, "host").value_or(""),
                        .address = text_field(m, "address").value_or("")});
  }
  const int size = static_cast<int>(members_.size());
  if (rank_ < 0 || rank_ >= size || server_rank_ < 0 || server_rank_ >= size) {
    throw Refused{"the rendezvous sent an inconsistent list of workers", true};
  }
}

void ControlChannel::Loop::run() {
  heard_ = Clock::now();
  auto beat = heard_;
  auto turn = heard_;
  while (true) {
    // After a pause of this thread itself, missing heartbeats prove nothing.
    const auto last = std::exchange(turn, Clock::now());
    if (turn - last > options_.silence / 2) heard_ = turn;
    bool unsent = false;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      const auto now = Clock::now();
      if (now - beat > options_.silence / 10) {
        beat = now;
        out_ += encode_message({{"kind", "beat"}});
      }
      if (!write_available(channel_, out_)) break;
      unsent = !out_.empty();
      changed_.notify_all();
    }
    pollfd waiting[] = {{wake_.fd(), POLLIN, 0}, {channel_.fd(), channel_.events(unsent), 0}};
    constexpr int kTick = 50;  // ms
    poll(waiting, 2, channel_.pending() ? 0 : kTick);
    wake_.drain();
    const size_t before = in_.size();
    const bool open = read_available(channel_, in_, kMostFromMember + 4);
    if (in_.size() > before) heard_ = Clock::now();
    Json message;
    Decoded decoded = Decoded::kIncomplete;
    while ((decoded = decode_message(in_, kMostFromMember, message)) == Decoded::kMessage) {
      handle(message);
    }
    if (!open || decoded == Decoded::kBroken) break;
    if (Clock::now() - heard_ > options_.silence) {
      lose_server(format("no heartbeat for {:.3g} s", seconds_of(options_.silence)), true);
      return go_down();
    }
  }
  lose_server("its connection closed", false);
  go_down();
}

void ControlChannel::Loop::lose_server(const std::string& why, bool unreachable) {
  const std::string& host = members_[static_cast<size_t>(server_rank_)].host;
  depart({CommStatus::lost(server_rank_, host, why), unreachable});
}

void ControlChannel::Loop::go_down() {
  std::lock_guard lock(mutex_);
  down_ = true;
  changed_.notify_all();
}

void ControlChannel::Loop::handle(const Json& message) {
  const std::string kind = *text_field(message, "kind");
  const int rank = static_cast<int>(number_field(message, "rank").value_or(-1));
  const std::string host = text_field(message, "host").value_or("");
  const std::string text = text_field(message, "text").value_or("");
  if (kind == "lost") {
    // Only the worker with the server has listened to it in vain.
    const auto silent = message.find("silent");
    const bool unheard = silent != message.end() && *silent == Json(true);
    return depart({CommStatus::lost(rank, host, text), unheard && rank_ == server_rank_});
  }
  if (kind == "left") {
    CommStatus left;
    left.rank = rank;
    left.host = host;
    return depart({left, false});
  }
  std::lock_guard lock(mutex_);
  if (kind == "value") {
    answers_[number_field(message, "id").value_or(-1)] = text_field(message, "value").value_or("");
  } else if (kind == "error" && !error_) {
    error_ = ReportedError{.rank = rank, .host = host, .text = text};
  }
  changed_.notify_all();
}

void ControlChannel::Loop::depart(const Departure& departure) {
  std::lock_guard calling(call_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (leaving_) return;
    if (!loss_ && !departure.status.ok()) loss_ = departure.status;
    changed_.notify_all();
  }
  departures_.push_back(departure);
  if (on_departure_) on_departure_(departure);
}

ControlChannel::ControlChannel(const JoinOptions& options)
    : loop_(std::make_unique<Loop>(options)) {}
ControlChannel::ControlChannel(FormedControl formed)
    : loop_(std::make_unique<Loop>(std::move(formed))) {}
ControlChannel::~ControlChannel() = default;

int ControlChannel::rank() const { return loop_->rank_; }
int ControlChannel::size() const { return static_cast<int>(loop_->members_.size()); }
const std::vector<Member>& ControlChannel::members() const { return loop_->members_; }
const std::string& ControlChannel::local_address() const { return loop_->local_address_; }
const std::string& ControlChannel::forming_id() const { return loop_->forming_; }

void ControlChannel::set(const std::string& key, const std::string& value) {
  loop_->send({{"kind", "set"}, {"key", key}, {"value", hex_encode(value)}});
}

std::optional<std::string> ControlChannel::get(const std::string& key, milliseconds within) {
  return loop_->get(key, within);
}

void ControlChannel::report_error(const std::string& text) {
  // The server drops a connection that sends more than kMostFromMember, and the cause with it.
  constexpr size_t kMostOfAnError = 4000;
  loop_->send({{"kind", "error"}, {"text", text.substr(0, kMostOfAnError)}});
  loop_->flush();
}

std::optional<CommStatus> ControlChannel::loss() const { return loop_->locked(loop_->loss_); }
std::optional<ReportedError> ControlChannel::first_error() const {
  return loop_->locked(loop_->error_);
}

void ControlChannel::on_departure(std::function<void(const Departure&)> call) {
  loop_->on_departure(std::move(call));
}

std::optional<CommStatus> ControlChannel::wait_for_loss(milliseconds within) const {
  return loop_->wait_for_loss(within);
}

void ControlChannel::leave() { loop_->leave(); }

}  // namespace reigen
