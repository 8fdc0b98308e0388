#include "dist/members/rendezvous_server.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dist/members/member_json.h"
#include "dist/net/comm_status.h"
#include "dist/net/message.h"
#include "dist/net/proof.h"
#include "dist/net/strangers.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMostUnsent = size_t{16} << 20;
constexpr size_t kMostValues = 100'000;

struct Connection {
  Channel channel;
  std::string from;  // network
  std::string in;
  std::string out;
  std::string nonce;
  Clock::time_point since = Clock::now();
  Clock::time_point heard = since;
  bool proved = false;
  bool joined = false;
  bool left = false;
  bool closing = false;  // to be closed once everything is sent
  bool broken = false;
  int rank = -1;
  std::string host;
  Json member;              // its entry in the list that all workers get
  bool any_address = true;  // its address was not chosen by --interface and may be replaced
  Json facts;
};

}  // namespace

class RendezvousServer::Loop {
 public:
  Loop(const ServerOptions& options, Socket listener)
      : options_(options),
        listener_(std::move(listener)),
        port_(port_of(listener_)),
        deadline_(Clock::now() + options.start_within) {
    thread_ = thread_without_signals([this] { run(); });
  }

  Loop(const ServerOptions& options, std::vector<ServedMember> members)
      : options_(options), port_(0), deadline_(Clock::now()), formed_(true) {
    for (ServedMember& member : members) {
      Connection& c = connections_.emplace_back();
      c.broken = !member.channel.open();
      c.channel = std::move(member.channel);
      c.in = std::move(member.unread);
      c.out = std::move(member.unsent);
      c.proved = c.joined = true;
      c.rank = member.rank;
      c.host = std::move(member.host);
    }
    thread_ = thread_without_signals([this] { run(); });
  }

  ~Loop() {
    stopping_ = true;
    wake_.wake();
    thread_.join();
  }

  int port() const { return port_; }
  uint64_t rejected() const { return rejected_; }
  int left() const { return left_; }

 private:
  void run();
  void poll_all();
  void admit();
  void serve(Connection& c);
  void handle(Connection& c, const Json& message);
  void prove(Connection& c, const Json& message);
  void join(Connection& c, const Json& message);
  void control(Connection& c, const std::string& kind, const Json& message);
  void answer_questions(const std::string& key);
  void refuse(Connection& c, const std::string& why);
  void refuse_all(const std::string& why);
  void form();
  void narrow(const std::string& outward);
  void check_deadlines(milliseconds pause);
  void lose(Connection& c, const std::string& why, bool silent);
  void drop_broken();
  std::string missing() const;
  std::string outward_address() const;
  std::string differences() const;

  static void send(Connection& c, const Json& message) { c.out += encode_message(message); }
  void send_members(const Json& message) {
    for (Connection& c : connections_) {
      if (c.joined && !c.left) send(c, message);
    }
  }
  std::vector<const Connection*> joined() const;
  std::string expected_host(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return at < options_.hosts.size() ? options_.hosts[at] : std::string();
  }

  ServerOptions options_;
  Socket listener_;
  AcceptPause accept_pause_;
  int port_;
  Clock::time_point deadline_;
  Clock::time_point beat_ = Clock::now();
  WakePipe wake_;
  std::list<Connection> connections_;
  bool formed_ = false;
  std::string refusal_;  // the reason why this job will never start; empty if it may
  std::map<std::string, std::string> values_;
  struct Question {
    Connection* from;
    std::string key;
    int64_t id;
  };
  std::list<Question> questions_;
  std::optional<Json> first_error_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> rejected_ = 0;
  std::atomic<int> left_ = 0;
  std::thread thread_;
};

void RendezvousServer::Loop::run() {
  auto last = Clock::now();
  while (!stopping_) {
    poll_all();
    const auto now = Clock::now();
    check_deadlines(std::chrono::duration_cast<milliseconds>(now - last));
    last = now;
    drop_broken();
  }
  // Send the last messages before the connections close.
  for (Connection& c : connections_) write_available(c.channel, c.out);
}

void RendezvousServer::Loop::poll_all() {
  std::vector<pollfd> waiting = {{wake_.fd(), POLLIN, 0},
                                 {accept_pause_.over() ? listener_.fd() : -1, POLLIN, 0}};
  std::vector<Connection*> polled;
  bool pending = false;
  for (Connection& c : connections_) {
    waiting.push_back({c.channel.fd(), c.channel.events(!c.out.empty()), 0});
    polled.push_back(&c);
    pending |= c.channel.pending();
  }
  constexpr int kTick = 50;  // ms
  if (poll(waiting.data(), waiting.size(), pending ? 0 : kTick) <= 0 && !pending) return;
  wake_.drain();
  for (size_t i = 0; i < polled.size(); ++i) {
    const short events = waiting[i + 2].revents;
    const bool readable = (events & (POLLIN | POLLERR | POLLHUP)) != 0;
    if (readable || polled[i]->channel.pending()) serve(*polled[i]);
  }
  if ((waiting[1].revents & POLLIN) != 0) admit();
  for (Connection& c : connections_) {
    if (!c.out.empty() && !write_available(c.channel, c.out)) c.broken = true;
  }
}

void RendezvousServer::Loop::admit() {
  for (int i = 0; i < kMostAcceptsAtOnce; ++i) {
    Socket socket = accept_from(listener_);
    if (!socket.open()) return accept_pause_.failed(errno);
    Connection& c = connections_.emplace_back();
    c.from = network_of(peer_address(socket));
    c.channel = Channel(std::move(socket), options_.encryption, Channel::Side::kAccepting);
    c.nonce = random_hex(kNonceBytes);
    send(c, {{"kind", "hello"}, {"nonce", c.nonce}});
    evict_stranger(connections_, [](const Connection& other) { return !other.proved; });
  }
}

void RendezvousServer::Loop::serve(Connection& c) {
  const size_t most = c.proved ? kMostFromMember : kMostFromStranger;
  const bool open = read_available(c.channel, c.in, most + 4);
  Json message;
  while (!c.broken && !c.closing) {
    const Decoded decoded = decode_message(c.in, most, message);
    if (decoded == Decoded::kIncomplete) break;
    if (decoded == Decoded::kBroken) {
      c.broken = true;
      break;
    }
    c.heard = Clock::now();
    handle(c, message);
  }
  if (!open) c.broken = true;
}

void RendezvousServer::Loop::handle(Connection& c, const Json& message) {
  const std::string kind = *text_field(message, "kind");
  if (!c.proved) {
    prove(c, message);
  } else if (!c.joined) {
    join(c, message);
  } else {
    control(c, kind, message);
  }
}

void RendezvousServer::Loop::prove(Connection& c, const Json& message) {
  const auto nonce = text_field(message, "nonce");
  const auto proof = text_field(message, "proof");
  if (!nonce || !proof ||
      !same_secret(*proof, hmac_sha256(options_.token,
                                       member_challenge(c.channel, kNoForming, c.nonce, *nonce)))) {
    ++rejected_;
    refuse(c, "the job token is wrong");
    return;
  }
  c.proved = true;
  send(c, {{"kind", "proved"},
           {"proof", hmac_sha256(options_.token,
                                 server_challenge(c.channel, kNoForming, *nonce, c.nonce))}});
}

void RendezvousServer::Loop::join(Connection& c, const Json& message) {
  const auto worker = worker_field(message, "worker");
  const auto rank = number_field(message, "rank");
  const auto size = number_field(message, "size");
  const auto epoch = number_field(message, "epoch");
  const auto host = text_field(message, "host");
  const auto address = text_field(message, "address");
  const auto facts = message.find("facts");
  if (!worker || !rank || !size || !epoch || !host || !address || facts == message.end() ||
      !facts->is_object()) {
    c.broken = true;
    return;
  }
  const std::string who = rank_and_host(static_cast<int>(*rank), *host);
  if (!refusal_.empty()) return refuse(c, refusal_);
  if (*epoch != options_.epoch) {
    return refuse(c, format("{} asks to join epoch {} of the job, which is in epoch {}", who,
                            *epoch, options_.epoch));
  }
  if (*size != options_.size || *rank < 0 || *rank >= *size) {
    return refuse(c,
                  format("{} expects {} workers, but this job has {}", who, *size, options_.size));
  }
  for (const Connection* other : joined()) {
    if (other->rank == *rank) {
      return refuse(c, format("rank {} joined twice: on {} and on {}", *rank, other->host, *host));
    }
  }
  if (formed_) return refuse(c, format("the job has already started without {}", who));
  c.joined = true;
  c.rank = static_cast<int>(*rank);
  c.host = *host;
  c.member = {
      {"worker", json_of(*worker)}, {"rank", c.rank}, {"host", c.host}, {"address", *address}};
  c.any_address = text_field(message, "chosen") != "as asked";
  c.facts = *facts;
  if (joined().size() == static_cast<size_t>(options_.size)) form();
}

std::vector<const Connection*> RendezvousServer::Loop::joined() const {
  std::vector<const Connection*> members;
  for (const Connection& c : connections_) {
    if (c.joined && !c.left && !c.broken) members.push_back(&c);
  }
  std::sort(members.begin(), members.end(),
            [](const Connection* a, const Connection* b) { return a->rank < b->rank; });
  return members;
}

// "config: rank 0 (vm1) has 3f2a, rank 2 (vm2) has 91bc", for each fact that differs.
std::string RendezvousServer::Loop::differences() const {
  const auto members = joined();
  std::string text;
  for (const auto& [key, value] : members.front()->facts.items()) {
    for (const Connection* other : members) {
      const auto theirs = other->facts.find(key);
      if (theirs != other->facts.end() && *theirs == value) continue;
      text += format("{}{}: {} has {}, {} has {}", text.empty() ? "" : "; ", key,
                     rank_and_host(members.front()->rank, members.front()->host),
                     value.is_string() ? value.get<std::string>() : one_line(value),
                     rank_and_host(other->rank, other->host),
                     theirs == other->facts.end() ? "none"
                     : theirs->is_string()        ? theirs->get<std::string>()
                                                  : one_line(*theirs));
      break;
    }
  }
  return text;
}

// This machine's address as workers on other machines reach it; empty if there are none.
std::string RendezvousServer::Loop::outward_address() const {
  for (const Connection* c : joined()) {
    std::string here = local_address(c->channel.socket());
    if (!is_loopback(here) && peer_address(c->channel.socket()) != here) return here;
  }
  return "";
}

void RendezvousServer::Loop::form() {
  if (const std::string different = differences(); !different.empty()) {
    return refuse_all("workers disagree: " + different);
  }
  // Ranks are renumbered: each becomes the index among those that joined.
  Json members = Json::array();
  int rendezvous_rank = 0;
  const std::string outward = outward_address();
  const std::string forming = random_hex(kNonceBytes);
  std::map<int, int> new_ranks;
  for (const Connection* c : joined()) {
    const int rank = static_cast<int>(members.size());
    if (c->rank == options_.rendezvous_rank) rendezvous_rank = rank;
    new_ranks[c->rank] = rank;
    Json member = c->member;
    // Workers of this machine may have joined by any of its addresses, such as loopback; workers of
    // other machines need an address that they can reach.
    const std::string from = peer_address(c->channel.socket());
    if (!outward.empty() && c->any_address && from == local_address(c->channel.socket()))
      member["address"] = outward;
    member["rank"] = rank;
    members.push_back(member);
  }
  for (Connection& c : connections_) {
    if (!c.joined || c.broken) continue;
    c.rank = new_ranks[c.rank];
    c.heard = Clock::now();
    send(c, {{"kind", "formed"},
             {"rank", c.rank},
             {"host_rank", rendezvous_rank},
             {"forming", forming},
             {"members", members}});
  }
  formed_ = true;
  narrow(outward);
}

// Until now any interface could be the one to the other workers; from now on only that one listens.
void RendezvousServer::Loop::narrow(const std::string& outward) {
  const std::string address =
      outward.empty() ? local_address(joined().front()->channel.socket()) : outward;
  if (address == local_address(listener_)) return;
  listener_.close();
  try {
    listener_ = listen_on(address, port_);
  } catch (const CommError&) {
    // The port only serves to answer late workers with the reason for the refusal; without it they
    // get none.
  }
}

void RendezvousServer::Loop::control(Connection& c, const std::string& kind, const Json& message) {
  if (kind == "beat") return;
  // Sent before this worker heard that the membership is formed.
  for (const char* forming : {"ask", "here", "join", "accept", "unfollow", "apply"}) {
    if (kind == forming) return;
  }
  if (kind == "leave") {
    c.left = true;
    ++left_;
    if (options_.elastic) send_members({{"kind", "left"}, {"rank", c.rank}, {"host", c.host}});
    return;
  }
  if (kind == "error") {
    if (first_error_) return;
    first_error_ = Json{{"kind", "error"},
                        {"rank", c.rank},
                        {"host", c.host},
                        {"text", text_field(message, "text").value_or("")}};
    return send_members(*first_error_);
  }
  const auto key = text_field(message, "key");
  const auto value = text_field(message, "value");
  const auto id = number_field(message, "id");
  if (kind == "set" && key && value && values_.size() < kMostValues) {
    values_[*key] = *value;
    answer_questions(*key);
  } else if (kind == "get" && key && id) {
    questions_.push_back({&c, *key, *id});
    answer_questions(*key);
  } else {
    c.broken = true;
  }
}

void RendezvousServer::Loop::answer_questions(const std::string& key) {
  const auto value = values_.find(key);
  if (value == values_.end()) return;
  for (auto q = questions_.begin(); q != questions_.end();) {
    if (q->key != key) {
      ++q;
      continue;
    }
    send(*q->from, {{"kind", "value"}, {"id", q->id}, {"value", value->second}});
    q = questions_.erase(q);
  }
}

void RendezvousServer::Loop::refuse(Connection& c, const std::string& why) {
  send(c, {{"kind", "refused"}, {"text", why}});
  c.closing = true;
}

void RendezvousServer::Loop::refuse_all(const std::string& why) {
  refusal_ = why;
  for (Connection& c : connections_) {
    if (c.joined) refuse(c, why);
    c.joined = false;
  }
}

std::string RendezvousServer::Loop::missing() const {
  const auto members = joined();
  std::string text;
  int count = 0;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (std::any_of(members.begin(), members.end(),
                    [&](const Connection* c) { return c->rank == rank; })) {
      continue;
    }
    text += (count++ > 0 ? ", " : "") + rank_and_host(rank, expected_host(rank));
  }
  return text;
}

void RendezvousServer::Loop::check_deadlines(milliseconds pause) {
  const auto now = Clock::now();
  // After a pause of this thread itself, missing heartbeats prove nothing.
  if (pause > options_.silence / 2) {
    for (Connection& c : connections_) c.heard = now;
  }
  for (Connection& c : connections_) {
    if (!c.proved && !c.closing && now - c.since > kProveWithin) c.broken = true;
    if (formed_ && c.joined && !c.left && now - c.heard > options_.silence) {
      lose(c, format("no heartbeat for {:.3g} s", seconds_of(options_.silence)), true);
    }
  }
  if (!formed_ && refusal_.empty() && now > deadline_) {
    const uint64_t rejected = rejected_;
    refuse_all(format("{} did not join within {:.3g} s (--start-within){}", missing(),
                      seconds_of(options_.start_within),
                      rejected == 0 ? "" : format("; connections rejected: {}", rejected)));
  }
  if (now - beat_ > options_.silence / 10) {
    beat_ = now;
    send_members({{"kind", "beat"}});
  }
}

// Notifies all workers, also the lost one: it may only have been suspended.
void RendezvousServer::Loop::lose(Connection& c, const std::string& why, bool silent) {
  send_members(
      {{"kind", "lost"}, {"rank", c.rank}, {"host", c.host}, {"text", why}, {"silent", silent}});
  write_available(c.channel, c.out);
  c.left = true;
  c.broken = true;
}

void RendezvousServer::Loop::drop_broken() {
  for (auto c = connections_.begin(); c != connections_.end();) {
    if (c->closing && c->out.empty()) c->broken = true;
    if (c->out.size() > kMostUnsent) c->broken = true;
    if (!c->broken) {
      ++c;
      continue;
    }
    if (formed_ && c->joined && !c->left) lose(*c, "its connection closed", false);
    if (!c->proved && !c->closing) ++rejected_;
    questions_.remove_if([&](const Question& q) { return q.from == &*c; });
    c = connections_.erase(c);
  }
}

RendezvousServer::RendezvousServer(const ServerOptions& options, Socket listener)
    : loop_(std::make_unique<Loop>(options, std::move(listener))) {}
RendezvousServer::RendezvousServer(const ServerOptions& options, std::vector<ServedMember> members)
    : loop_(std::make_unique<Loop>(options, std::move(members))) {}
RendezvousServer::~RendezvousServer() = default;
int RendezvousServer::port() const { return loop_->port(); }
int RendezvousServer::left() const { return loop_->left(); }
uint64_t RendezvousServer::rejected() const { return loop_->rejected(); }

}  // namespace reigen
