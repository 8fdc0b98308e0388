// Connections between the standby ports of a job's workers, each proven by the job's token and the
// id of its first forming: the other end is identified before any of its messages counts.
//
// One thread uses them: it polls, sends, and takes what happened. Strangers that connect are held
// off as in rendezvous_server.h. Two workers that dial each other have two links: each sends on the
// one that it heard from last, so both give the same one away when it becomes a control channel.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <list>
#include <optional>
#include <set>
#include <string>

#include "base/json/json.h"
#include "dist/members/forming/succession.h"
#include "dist/net/channel.h"
#include "dist/net/strangers.h"

namespace reigen {

struct PeerLinksOptions {
  WorkerId self = {};
  std::string token;
  std::string first_forming;  // its id is in every proof
  Encryption encryption;
  std::chrono::milliseconds silence{10'000};  // an idle link without acknowledgements is broken
};

class PeerLinks {
 public:
  PeerLinks(const PeerLinksOptions& options, Socket listener);

  // A message from a worker, or without one: no connection to it is left, or it refused one, or is
  // a different worker. A connection that closes before its proof means nothing: strangers may have
  // taken its place. It is dialled again.
  struct Event {
    WorkerId from = {};
    std::optional<Json> message = {};
    bool refused = false;  // no process listens at its address
  };

  // Connects unless a link is there or under way.
  void dial(const WorkerId& peer, const Endpoint& at);
  // Sent at once or once the link under way is proven; dropped where there is none.
  void send(const WorkerId& peer, const Json& message);
  bool has(const WorkerId& peer) const;  // proven
  std::set<WorkerId> connected() const;  // all of them
  // Moves bytes, waits for at most so long, or until one of `others` is readable.
  void poll(std::chrono::milliseconds within, std::initializer_list<int> others);
  std::optional<Event> next_event();

  // The nonces of both ends, for a proof that belongs to this link.
  std::string nonces(const WorkerId& peer) const;
  // Gives the link that was heard from last away, with what was not read or sent yet.
  struct Taken {
    Channel channel;
    std::string unread;
    std::string unsent;
  };
  std::optional<Taken> take(const WorkerId& peer);
  void close_all();  // without events

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    uint64_t id = 0;
    uint64_t heard = 0;                      // the higher, the later
    Socket dialling;                         // open while connecting
    Endpoint at;                             // of a worker that is dialled
    std::optional<Clock::time_point> again;  // it is to be dialled then
    Channel channel;
    std::optional<WorkerId> dialled;  // the worker that this end connects to
    std::optional<WorkerId> peer;     // proven
    std::string in;
    std::string out;
    std::string waiting;  // to be sent once it is proven
    std::string nonce;
    std::string theirs;
    std::string from;  // network
    Clock::time_point since = Clock::now();
    bool proved = false;
    bool broken = false;
    bool refused = false;
  };

  Link& add_link();
  Link* link_to(const WorkerId& peer);
  const Link* link_to(const WorkerId& peer) const;
  void accept_some();
  void start_dial(Link& link);
  void finish_dial(Link& link);
  static void fail_dial(Link& link, int error);
  void dial_again(Link& link);
  void serve(Link& link);
  void handle(Link& link, const Json& message);
  void answer_hello(Link& link, const Json& message);
  void check_proof(Link& link, const Json& message);
  void check_answer(Link& link, const Json& message);
  void learn_peer(Link& link, const Json& message);
  void introduce(Link& link);
  void drop_broken();
  std::string proof(const std::string& challenge) const;

  PeerLinksOptions options_;
  Socket listener_;
  AcceptPause accept_pause_;
  std::list<Link> links_;  // in the order they came
  struct Queued {
    uint64_t link = 0;
    Event event;
  };
  std::deque<Queued> events_;
  uint64_t last_link_ = 0;
  uint64_t last_heard_ = 0;
};

}  // namespace reigen
