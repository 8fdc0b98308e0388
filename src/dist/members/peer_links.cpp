#include "dist/members/peer_links.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/hash.h"
#include "dist/members/member_json.h"
#include "dist/net/message.h"
#include "dist/net/proof.h"

namespace reigen {
namespace {

constexpr size_t kMostWaiting = size_t{16} << 20;
// A link that is not proven by then is dropped; a worker that needs it dials again.
constexpr std::chrono::milliseconds kDialWithin{2'000};

}  // namespace

PeerLinks::PeerLinks(const PeerLinksOptions& options, Socket listener)
    : options_(options), listener_(std::move(listener)) {}

PeerLinks::Link& PeerLinks::add_link() {
  Link& link = links_.emplace_back();
  link.id = ++last_link_;
  link.nonce = random_hex(kNonceBytes);
  return link;
}

PeerLinks::Link* PeerLinks::link_to(const WorkerId& peer) {
  Link* found = nullptr;
  for (Link& link : links_) {
    const bool usable = !link.broken && link.peer == peer;
    if (usable && (found == nullptr || link.heard >= found->heard)) found = &link;
  }
  return found;
}

const PeerLinks::Link* PeerLinks::link_to(const WorkerId& peer) const {
  return const_cast<PeerLinks*>(this)->link_to(peer);
}

bool PeerLinks::has(const WorkerId& peer) const { return link_to(peer) != nullptr; }

std::set<WorkerId> PeerLinks::connected() const {
  std::set<WorkerId> peers;
  for (const Link& link : links_) {
    if (!link.broken && link.peer) peers.insert(*link.peer);
  }
  return peers;
}

void PeerLinks::dial(const WorkerId& peer, const Endpoint& at) {
  const bool there = std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return !link.broken && (link.peer == peer || link.dialled == peer);
  });
  if (there) return;
  Link& link = add_link();
  link.dialled = peer;
  link.at = at;
  start_dial(link);
}

void PeerLinks::start_dial(Link& link) {
  int failed = 0;
  link.again.reset();
  link.dialling = start_connect(link.at, failed);
  if (!link.dialling.open()) fail_dial(link, failed);
}

void PeerLinks::fail_dial(Link& link, int error) {
  link.broken = true;
  link.refused = error == ECONNREFUSED;
}

// Messages that wait for the proof stay.
void PeerLinks::dial_again(Link& link) {
  link.broken = false;
  link.channel = Channel();
  link.in.clear();
  link.out.clear();
  link.theirs.clear();
  link.nonce = random_hex(kNonceBytes);
  link.again = Clock::now() + kBetweenTries;
}

void PeerLinks::send(const WorkerId& peer, const Json& message) {
  if (Link* link = link_to(peer)) {
    link->out += encode_message(message);
    if (!write_available(link->channel, link->out)) link->broken = true;
    return;
  }
  for (Link& link : links_) {
    if (!link.broken && link.dialled == peer) {
      link.waiting += encode_message(message);
      return;
    }
  }
}

std::optional<PeerLinks::Event> PeerLinks::next_event() {
  if (events_.empty()) return std::nullopt;
  const Queued next = std::move(events_.front());
  events_.pop_front();
  for (Link& link : links_) {
    if (link.id == next.link) link.heard = ++last_heard_;
  }
  return next.event;
}

void PeerLinks::poll(std::chrono::milliseconds within, std::initializer_list<int> others) {
  std::vector<pollfd> waiting = {{accept_pause_.over() ? listener_.fd() : -1, POLLIN, 0}};
  std::vector<Link*> polled;
  bool ready = !events_.empty();
  for (Link& link : links_) {
    ready = ready || link.broken || link.channel.pending();
    if (link.again && Clock::now() >= *link.again) start_dial(link);
    if (link.dialling.open()) {
      waiting.push_back({link.dialling.fd(), POLLOUT, 0});
    } else {
      waiting.push_back({link.channel.fd(), link.channel.events(!link.out.empty()), 0});
    }
    polled.push_back(&link);
  }
  for (const int fd : others) waiting.push_back({fd, POLLIN, 0});
  const int limit = ready ? 0 : static_cast<int>(within.count());
  if (::poll(waiting.data(), waiting.size(), limit) < 0) return;
  for (size_t i = 0; i < polled.size(); ++i) {
    Link& link = *polled[i];
    const bool event = waiting[1 + i].revents != 0;
    if (link.broken) continue;
    if (link.dialling.open() && event) finish_dial(link);
    const bool connected = link.channel.open();
    if (connected && (event || link.channel.pending())) serve(link);
    if (link.broken && connected && link.dialled && !link.proved) dial_again(link);
    if (!link.peer && Clock::now() - link.since > (link.dialled ? kDialWithin : kProveWithin)) {
      link.dialled.reset();  // no answer: neither here nor gone
      link.broken = true;
    }
  }
  if (waiting[0].revents != 0) accept_some();
  drop_broken();
}

void PeerLinks::finish_dial(Link& link) {
  if (const int error = finish_connect(link.dialling); error != 0) {
    fail_dial(link, error);
    link.dialling.close();
    return;
  }
  link.channel = Channel(std::move(link.dialling), options_.encryption, Channel::Side::kConnecting);
}

void PeerLinks::accept_some() {
  for (int i = 0; i < kMostAcceptsAtOnce; ++i) {
    Socket socket = accept_from(listener_);
    if (!socket.open()) return accept_pause_.failed(errno);
    Link& link = add_link();
    link.from = network_of(peer_address(socket));
    link.channel = Channel(std::move(socket), options_.encryption, Channel::Side::kAccepting);
    link.out = encode_message(
        {{"kind", "hello"}, {"nonce", link.nonce}, {"forming", options_.first_forming}});
    serve(link);
    evict_stranger(links_, [](const Link& other) { return !other.dialled && !other.proved; });
  }
}

void PeerLinks::serve(Link& link) {
  const size_t most = link.proved ? kMostFromMember : kMostFromStranger;
  const bool open = read_available(link.channel, link.in, most + 4);
  Json message;
  while (!link.broken) {
    const Decoded decoded =
        decode_message(link.in, link.proved ? kMostFromMember : kMostFromStranger, message);
    if (decoded == Decoded::kIncomplete) break;
    if (decoded == Decoded::kBroken) {
      link.broken = true;
      break;
    }
    handle(link, message);
  }
  if (!write_available(link.channel, link.out) || !open) link.broken = true;
  if (link.out.size() > kMostWaiting) link.broken = true;
}

void PeerLinks::handle(Link& link, const Json& message) {
  const std::string kind = *text_field(message, "kind");
  if (link.peer) {
    events_.push_back({link.id, {*link.peer, message}});
  } else if (link.proved && kind == "worker") {
    learn_peer(link, message);
  } else if (link.dialled && link.theirs.empty() && kind == "hello") {
    answer_hello(link, message);
  } else if (link.dialled && !link.proved && kind == "proved") {
    check_answer(link, message);
  } else if (!link.dialled && !link.proved && kind == "prove") {
    check_proof(link, message);
  } else {
    link.broken = true;
  }
}

std::string PeerLinks::proof(const std::string& challenge) const {
  return hmac_sha256(options_.token, challenge);
}

void PeerLinks::answer_hello(Link& link, const Json& message) {
  link.theirs = text_field(message, "nonce").value_or("");
  if (link.theirs.empty()) {
    link.broken = true;
    return;
  }
  link.out += encode_message({{"kind", "prove"},
                              {"nonce", link.nonce},
                              {"proof", proof(member_challenge(link.channel, options_.first_forming,
                                                               link.theirs, link.nonce))}});
}

void PeerLinks::check_proof(Link& link, const Json& message) {
  link.theirs = text_field(message, "nonce").value_or("");
  const std::string given = text_field(message, "proof").value_or("");
  const std::string wanted =
      proof(member_challenge(link.channel, options_.first_forming, link.nonce, link.theirs));
  if (link.theirs.empty() || !same_secret(given, wanted)) {
    link.broken = true;
    return;
  }
  link.out += encode_message({{"kind", "proved"},
                              {"proof", proof(server_challenge(link.channel, options_.first_forming,
                                                               link.theirs, link.nonce))}});
  introduce(link);
}

void PeerLinks::check_answer(Link& link, const Json& message) {
  const std::string given = text_field(message, "proof").value_or("");
  const std::string wanted =
      proof(server_challenge(link.channel, options_.first_forming, link.nonce, link.theirs));
  if (link.theirs.empty() || !same_secret(given, wanted)) {
    link.broken = true;
    return;
  }
  introduce(link);
  link.out += std::exchange(link.waiting, {});
}

void PeerLinks::introduce(Link& link) {
  link.proved = true;
  link.out += encode_message({{"kind", "worker"}, {"worker", json_of(options_.self)}});
}

// A worker that was started again at this port is a different one.
void PeerLinks::learn_peer(Link& link, const Json& message) {
  const auto worker = worker_field(message, "worker");
  if (!worker || (link.dialled && *worker != *link.dialled)) {
    link.broken = true;
    return;
  }
  link.peer = worker;
  probe_when_idle(link.channel.socket(), options_.silence);
}

void PeerLinks::drop_broken() {
  std::vector<Event> ended;
  std::erase_if(links_, [&](const Link& link) {
    const std::optional<WorkerId>& peer = link.peer ? link.peer : link.dialled;
    if (link.broken && peer) ended.push_back({.from = *peer, .refused = link.refused});
    return link.broken;
  });
  for (const Event& event : ended) {
    if (!has(event.from)) events_.push_back({0, event});
  }
}

std::string PeerLinks::nonces(const WorkerId& peer) const {
  const Link* link = link_to(peer);
  if (link == nullptr) return "";
  return link->dialled ? link->theirs + " " + link->nonce : link->nonce + " " + link->theirs;
}

std::optional<PeerLinks::Taken> PeerLinks::take(const WorkerId& peer) {
  Link* link = link_to(peer);
  if (link == nullptr) return std::nullopt;
  std::string unread;
  for (const Queued& queued : events_) {
    if (queued.link == link->id) unread += encode_message(*queued.event.message);
  }
  std::erase_if(events_, [&](const Queued& queued) { return queued.link == link->id; });
  Taken taken{std::move(link->channel), unread + link->in, std::move(link->out)};
  links_.remove_if([&](const Link& other) { return &other == link; });
  return taken;
}

void PeerLinks::close_all() {
  links_.clear();
  events_.clear();
}

}  // namespace reigen
