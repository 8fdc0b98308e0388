#include "dist/mesh/forming.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "dist/net/comm_status.h"
#include "dist/net/message.h"
#include "dist/net/strangers.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A connection that is not a member of the mesh yet.
struct Candidate {
  Channel channel;
  int peer = -1;         // known from the start where this rank connects
  bool dialled = false;  // this rank connects
  std::string nonce = random_hex(kNonceBytes);
  std::string theirs;  // their nonce
  std::string in;
  std::string out;
  std::string from;  // network
  Clock::time_point since = Clock::now();
  bool proved = false;
  bool broken = false;
};

class Forming {
 public:
  explicit Forming(const FormingOptions& options)
      : options_(options),
        deadline_(Clock::now() + options.within),
        mesh_(static_cast<size_t>(options.size)),
        dials_(static_cast<size_t>(options.rank)) {}

  std::vector<MeshLink> run() {
    while (missing() > 0) {
      options_.check();
      if (Clock::now() > deadline_) throw UnreachablePeer(first_missing(), too_late());
      dial_lower_ranks();
      poll_all();
      for (Candidate& c : candidates_) {
        if (!c.broken && Clock::now() - c.since > kProveWithin) drop(c, "no answer");
      }
      candidates_.remove_if([](const Candidate& c) { return c.broken; });
    }
    return std::move(mesh_);
  }

 private:
  // The connection to a lower rank before it is a candidate.
  struct Dial {
    Socket socket;  // open while connecting
    bool busy = false;
    Clock::time_point since = Clock::now();  // without an answer
    Clock::time_point next = since;          // of the next try
    std::string why;
  };

  size_t missing() const {
    return static_cast<size_t>(
        std::count_if(mesh_.begin(), mesh_.end(),
                      [](const MeshLink& link) { return !link.channel.open(); }) -
        1);
  }
  std::string name(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return rank_and_host(rank, at < options_.hosts.size() ? options_.hosts[at] : "");
  }
  // Binds a proof to this forming, both ranks and both nonces.
  std::string proof(const char* role, const Candidate& c, int from, int to, const std::string& a,
                    const std::string& b) const {
    return hmac_sha256(options_.token, format("mesh {} {} {} {} {} {} {}", role, options_.id, from,
                                              to, a, b, c.channel.binding()));
  }

  void dial_lower_ranks();
  static void not_connected(Dial& dial, int error_number);
  void finish_dial(int rank);
  void poll_all();
  void accept_some();
  void serve(Candidate& c);
  void handle(Candidate& c, const Json& message);
  void answer_hello(Candidate& c, const Json& message);
  void check_member(Candidate& c, const Json& message);
  void drop(Candidate& c, const std::string& why);
  std::string too_late() const;
  int first_missing() const;

  const FormingOptions& options_;
  Clock::time_point deadline_;
  std::vector<MeshLink> mesh_;
  std::vector<Dial> dials_;
  std::list<Candidate> candidates_;
  AcceptPause accept_pause_;
};

void Forming::dial_lower_ranks() {
  for (int rank = 0; rank < options_.rank; ++rank) {
    Dial& dial = dials_[static_cast<size_t>(rank)];
    if (mesh_[static_cast<size_t>(rank)].channel.open() || dial.busy) continue;
    const Endpoint& at = options_.peers[static_cast<size_t>(rank)];
    const auto now = Clock::now();
    if (now - dial.since > options_.reach_within) {
      throw UnreachablePeer(
          rank,
          format("{} and {} cannot reach each other: no answer from {} for {:.3g} s{}",
                 name(options_.rank), name(rank), text_of(at), seconds_of(options_.reach_within),
                 dial.why.empty() ? "" : format(" ({})", dial.why)));
    }
    if (dial.socket.open() || now < dial.next) continue;
    dial.next = now + kBetweenTries;
    int failed = 0;
    dial.socket = start_connect(at, failed);
    if (!dial.socket.open()) not_connected(dial, failed);
  }
}

// A refusal is an answer: the host is there, and its worker may listen again soon.
void Forming::not_connected(Dial& dial, int error_number) {
  dial.socket.close();
  dial.why = errno_text(error_number);
  if (error_number == ECONNREFUSED) dial.since = Clock::now();
}

void Forming::finish_dial(int rank) {
  Dial& dial = dials_[static_cast<size_t>(rank)];
  if (const int failed = finish_connect(dial.socket)) return not_connected(dial, failed);
  Candidate& c = candidates_.emplace_back();
  c.channel = Channel(std::move(dial.socket), options_.encryption, Channel::Side::kConnecting);
  c.peer = rank;
  c.dialled = true;
  dial.busy = true;
  serve(c);  // begins the handshake
}

void Forming::drop(Candidate& c, const std::string& why) {
  c.broken = true;
  if (!c.dialled) return;
  Dial& dial = dials_[static_cast<size_t>(c.peer)];
  dial.busy = false;
  dial.since = Clock::now();  // it was reached
  dial.next = dial.since + kBetweenTries;
  dial.why = c.channel.key_rejected() ? "it has a different job token, or is not a worker" : why;
}

void Forming::poll_all() {
  std::vector<pollfd> waiting = {{accept_pause_.over() ? options_.listener->fd() : -1, POLLIN, 0}};
  std::vector<int> dialling;
  for (int rank = 0; rank < options_.rank; ++rank) {
    const Socket& socket = dials_[static_cast<size_t>(rank)].socket;
    if (!socket.open()) continue;
    waiting.push_back({socket.fd(), POLLOUT, 0});
    dialling.push_back(rank);
  }
  std::vector<Candidate*> polled;
  for (Candidate& c : candidates_) {
    waiting.push_back({c.channel.fd(), c.channel.events(!c.out.empty()), 0});
    polled.push_back(&c);
  }
  constexpr int kTick = 50;  // ms
  if (poll(waiting.data(), waiting.size(), kTick) <= 0) return;
  for (size_t i = 0; i < dialling.size(); ++i) {
    if (waiting[1 + i].revents != 0) finish_dial(dialling[i]);
  }
  for (size_t i = 0; i < polled.size(); ++i) {
    if (waiting[1 + dialling.size() + i].revents != 0) serve(*polled[i]);
  }
  if (waiting[0].revents != 0) accept_some();
}

void Forming::accept_some() {
  for (int i = 0; i < kMostAcceptsAtOnce; ++i) {
    Socket socket = accept_from(*options_.listener);
    if (!socket.open()) return accept_pause_.failed(errno);
    Candidate& c = candidates_.emplace_back();
    c.from = network_of(peer_address(socket));
    c.channel = Channel(std::move(socket), options_.encryption, Channel::Side::kAccepting);
    c.out = encode_message({{"kind", "hello"}, {"nonce", c.nonce}});
    if (!write_available(c.channel, c.out)) c.broken = true;
    evict_stranger(candidates_,
                   [](const Candidate& other) { return !other.dialled && !other.proved; });
  }
}

void Forming::serve(Candidate& c) {
  const bool open = read_available(c.channel, c.in, kMostFromStranger + 4);
  Json message;
  while (!c.broken && !c.proved) {
    const Decoded decoded = decode_message(c.in, kMostFromStranger, message);
    if (decoded == Decoded::kIncomplete) break;
    if (decoded == Decoded::kBroken) return drop(c, "the program there is not reigen");
    handle(c, message);
  }
  if (c.broken) return;
  if (!write_available(c.channel, c.out) || !open) return drop(c, c.channel.error());
  if (c.proved && c.out.empty()) {
    mesh_[static_cast<size_t>(c.peer)] = {std::move(c.channel), std::move(c.in)};
    c.broken = true;
  }
}

void Forming::handle(Candidate& c, const Json& message) {
  const std::string kind = *text_field(message, "kind");
  if (c.dialled && c.theirs.empty() && kind == "hello") return answer_hello(c, message);
  if (!c.dialled && kind == "prove") return check_member(c, message);
  if (c.dialled && kind == "proved") {
    const auto given = text_field(message, "proof");
    const std::string wanted = proof("accepts", c, c.peer, options_.rank, c.nonce, c.theirs);
    if (!given || !same_secret(*given, wanted)) return drop(c, "it has a different job token");
    c.proved = true;
    return;
  }
  drop(c, "the program there is not reigen");
}

void Forming::answer_hello(Candidate& c, const Json& message) {
  c.theirs = text_field(message, "nonce").value_or("");
  if (c.theirs.empty()) return drop(c, "the program there is not reigen");
  c.out +=
      encode_message({{"kind", "prove"},
                      {"rank", options_.rank},
                      {"nonce", c.nonce},
                      {"proof", proof("connects", c, options_.rank, c.peer, c.theirs, c.nonce)}});
}

void Forming::check_member(Candidate& c, const Json& message) {
  const int64_t rank = number_field(message, "rank").value_or(-1);
  const auto nonce = text_field(message, "nonce");
  const auto given = text_field(message, "proof");
  if (rank <= options_.rank || rank >= options_.size || !nonce || !given) return drop(c, "");
  const int peer = static_cast<int>(rank);
  if (!same_secret(*given, proof("connects", c, peer, options_.rank, c.nonce, *nonce))) {
    return drop(c, "");
  }
  c.peer = peer;
  c.proved = true;
  c.out += encode_message(
      {{"kind", "proved"}, {"proof", proof("accepts", c, options_.rank, peer, *nonce, c.nonce)}});
}

int Forming::first_missing() const {
  int rank = 0;
  while (rank == options_.rank || mesh_[static_cast<size_t>(rank)].channel.open()) ++rank;
  return rank;
}

std::string Forming::too_late() const {
  std::string text;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank || mesh_[static_cast<size_t>(rank)].channel.open()) continue;
    std::string why = "it did not connect";
    if (rank < options_.rank) {
      why = dials_[static_cast<size_t>(rank)].why;
      if (why.empty()) {
        why = format("no answer from {}", text_of(options_.peers[static_cast<size_t>(rank)]));
      }
    }
    text += format("{}{} ({})", text.empty() ? "" : ", ", name(rank), why);
  }
  return format("{} cannot connect to all other workers within {:.3g} s (--start-within): {}",
                name(options_.rank), seconds_of(options_.within), text);
}

}  // namespace

std::vector<MeshLink> form_mesh(const FormingOptions& options) { return Forming(options).run(); }

}  // namespace reigen
