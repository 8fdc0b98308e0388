#include "dist/mesh/mesh.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/format.h"
#include "dist/mesh/frame.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kStaging = 4096;  // headers and small payloads are read together
constexpr milliseconds kTick{1'000};

}  // namespace

struct MeshBuffer::Impl {
  Mesh& mesh;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // null: for sending only
  size_t bytes = 0;
  size_t sending = 0;  // messages under way
  size_t receiving = 0;
  size_t sent = 0;  // messages that were sent or have arrived, and were not waited for yet
  size_t received = 0;
  int peer = -1;  // the last one used, to name in errors
};

struct Mesh::Impl {
  struct Outgoing {
    MeshBuffer::Impl* owner;  // null for a goodbye
    FrameHeader header;
    std::span<const std::byte> payload;
    size_t done = 0;  // of header and payload
  };
  struct Incoming {
    MeshBuffer::Impl* owner;
    std::span<std::byte> memory;
  };
  // One connection.
  struct Peer {
    int rank = -1;
    Channel channel;
    std::deque<Outgoing> out;
    std::map<uint64_t, std::deque<Incoming>> expected;  // by slot

    std::vector<std::byte> staging;  // bytes read but not consumed
    std::optional<Frame> frame;      // the message under way
    std::optional<Incoming> into;    // its memory; none while no receive expects it
    size_t filled = 0;
    bool said_goodbye = false;
    std::optional<Clock::time_point> unanswered_since;

    // A message has come that no receive expects yet: nothing more is read until one does.
    bool paused() const { return frame && !into; }
    // Bytes were read that make progress now; poll() does not announce them.
    bool ready() const {
      if (!channel.open() || paused() || said_goodbye) return false;
      const size_t needed = into ? 1 : kFrameBytes;
      return staging.size() >= needed || channel.pending() || !channel.error().empty();
    }
  };

  explicit Impl(const MeshOptions& given) : options(given) {}

  MeshOptions options;
  std::vector<Peer> peers;  // by rank; the own entry is unused
  std::vector<pollfd> waiting;
  std::vector<Peer*> polled;
  WakePipe wake;

  mutable std::mutex mutex;  // guards these; everything else belongs to the thread that uses it
  CommStatus status;
  bool leaving = false;  // this rank's goodbye may have been sent
  bool left = false;     // in order: the last messages must still arrive

  std::string host(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return rank >= 0 && at < options.forming.hosts.size() ? options.forming.hosts[at] : "";
  }
  template <class Each>
  void for_peers(Each each) {
    for (int distance = 1; distance < options.forming.size; ++distance) {
      each(peers[static_cast<size_t>((options.forming.rank + distance) % options.forming.size)]);
    }
  }

  void check() const {
    std::lock_guard lock(mutex);
    if (!status.ok()) throw CommFailure{status};
  }
  [[noreturn]] void fail_and_throw(const CommStatus& why) {
    fail(why);
    std::lock_guard lock(mutex);
    throw CommFailure{status};
  }
  [[noreturn]] void lose(const Peer& peer, const std::string& why) {
    fail_and_throw(CommStatus::lost(peer.rank, host(peer.rank), why));
  }
  // By the error of its connection.
  [[noreturn]] void lose(const Peer& peer) {
    if (!peer.channel.timed_out()) lose(peer, peer.channel.error());
    cut_off(peer);
  }
  [[noreturn]] void cut_off(const Peer& peer) {
    const int own = options.forming.rank;
    fail_and_throw(CommStatus::unreachable(
        peer.rank, host(peer.rank),
        format("{} got no acknowledgement from it for {:.3g} s", rank_and_host(own, host(own)),
               seconds_of(options.silence))));
  }

  template <class Done>
  void progress_until(int peer, milliseconds limit, Done done);
  void poll_all(milliseconds within);
  template <class Done>
  void read_from(Peer& peer, Done done);
  bool begin_message(Peer& peer);
  bool expect_frame(Peer& peer);
  void fill_message(Peer& peer);
  void write_to(Peer& peer);
  void check_reachable();
  void fail(const CommStatus& why);
  void notice_hang_up();
};

Mesh::Mesh(const MeshOptions& options) : impl_(std::make_unique<Impl>(options)) {
  Impl& p = *impl_;
  std::vector<MeshLink> links = form_mesh(options.forming);
  p.peers.resize(links.size());
  for (size_t rank = 0; rank < links.size(); ++rank) {
    Impl::Peer& peer = p.peers[rank];
    peer.rank = static_cast<int>(rank);
    peer.channel = std::move(links[rank].channel);
    peer.staging.reserve(kStaging);
    const auto unread = std::as_bytes(std::span(links[rank].unread));
    peer.staging.assign(unread.begin(), unread.end());
    if (peer.channel.open() && options.silence.count() > 0) {
      probe_when_idle(peer.channel.socket(), options.silence);
    }
  }
}

Mesh::~Mesh() { fail(CommStatus::closed("")); }

void Mesh::fail(const CommStatus& why) { impl_->fail(why); }

void Mesh::Impl::fail(const CommStatus& why) {
  {
    std::lock_guard lock(mutex);
    if (!status.ok()) return;
    status = why;
    if (left) return;
  }
  for (const Peer& peer : peers) {
    if (peer.channel.open()) reset_connection(peer.channel.socket());
  }
  wake.wake();
}

CommStatus Mesh::status() const {
  impl_->notice_hang_up();
  std::lock_guard lock(impl_->mutex);
  return impl_->status;
}

// No rank hangs up before it has this rank's goodbye.
void Mesh::Impl::notice_hang_up() {
  {
    std::lock_guard lock(mutex);
    if (!status.ok() || leaving) return;
  }
  for (const Peer& peer : peers) {
    pollfd hang_up{peer.channel.fd(), POLLRDHUP, 0};
    if (poll(&hang_up, 1, 0) > 0) {
      return fail(CommStatus::lost(peer.rank, host(peer.rank), "its connection closed"));
    }
  }
}

int Mesh::encrypted_peers() const {
  return static_cast<int>(std::count_if(impl_->peers.begin(), impl_->peers.end(),
                                        [](const auto& p) { return p.channel.encrypted(); }));
}

CommStatus Mesh::leave(milliseconds within) {
  Impl& p = *impl_;
  try {
    p.check();
    {
      std::lock_guard lock(p.mutex);
      p.leaving = true;
    }
    p.for_peers([&](Impl::Peer& peer) {
      peer.out.push_back({nullptr, encode_frame({.kind = FrameKind::kGoodbye}), {}});
      p.write_to(peer);
    });
    p.progress_until(-1, within, [&] {
      bool all = true;
      p.for_peers([&](Impl::Peer& peer) { all &= peer.said_goodbye && peer.out.empty(); });
      return all;
    });
    std::lock_guard lock(p.mutex);
    p.left = p.status.ok();
    return p.status;
  } catch (const CommFailure& failure) {
    return failure.status;
  }
}

// Moves bytes on all connections until `done`. `peer` is named if that takes longer than `limit`.
template <class Done>
void Mesh::Impl::progress_until(int peer, milliseconds limit, Done done) {
  const auto begin = Clock::now();
  auto looked = begin;
  while (!done()) {
    check();
    const bool ready =
        std::any_of(peers.begin(), peers.end(), [](const Peer& p) { return p.ready(); });
    poll_all(ready ? milliseconds(0) : kTick);
    for (size_t i = 0; i < polled.size(); ++i) {
      Peer& p = *polled[i];
      const short events = waiting[i + 1].revents;
      if ((events & POLLOUT) != 0) write_to(p);
      const bool hung_up = (events & (POLLERR | POLLHUP | POLLRDHUP)) != 0;
      if (p.paused()) {
        if (hung_up) lose(p, "its connection closed");
      } else if (hung_up || (events & POLLIN) != 0 || p.ready()) {
        read_from(p, done);
      }
    }
    const auto now = Clock::now();
    if (now - looked >= kTick) {
      looked = now;
      check_reachable();
    }
    if (limit.count() > 0 && now - begin > limit && !done()) {
      fail_and_throw(CommStatus::timeout(peer, host(peer),
                                         format("no message for {:.3g} s", seconds_of(limit))));
    }
  }
}

void Mesh::Impl::poll_all(milliseconds within) {
  waiting.assign(1, {wake.fd(), POLLIN, 0});
  polled.clear();
  for_peers([&](Peer& peer) {
    if (!peer.channel.open() || (peer.said_goodbye && peer.out.empty())) return;
    short events = peer.channel.events(!peer.out.empty());
    if (peer.paused()) events = static_cast<short>((events & ~POLLIN) | POLLRDHUP);
    waiting.push_back({peer.channel.fd(), events, 0});
    polled.push_back(&peer);
  });
  poll(waiting.data(), waiting.size(), static_cast<int>(within.count()));
  if (waiting[0].revents != 0) wake.drain();
}

// Reads until nothing is available, `done`, or a message that is not expected yet.
template <class Done>
void Mesh::Impl::read_from(Peer& peer, Done done) {
  bool drained = false;
  while (true) {
    // Everything that was read already.
    while (peer.into || (!peer.frame && peer.staging.size() >= kFrameBytes)) {
      if (!peer.frame && !begin_message(peer)) return;
      fill_message(peer);
      if (peer.frame) break;
      if (done()) return;
    }
    if (drained || peer.paused()) return;
    // A long payload is read straight into its memory.
    const size_t left = peer.into ? peer.into->memory.size() - peer.filled : 0;
    const size_t staged = peer.staging.size();
    if (left < kStaging) peer.staging.resize(kStaging);
    const std::span<std::byte> into = left < kStaging ? std::span(peer.staging).subspan(staged)
                                                      : peer.into->memory.subspan(peer.filled);
    const Channel::Moved moved = peer.channel.read(into);
    if (left < kStaging) {
      peer.staging.resize(staged + moved.bytes);
    } else {
      peer.filled += moved.bytes;
    }
    if (!moved.open && moved.bytes == 0) lose(peer);
    drained = moved.bytes < into.size();
  }
}

// Takes a header from the staging. False if no receive expects its message yet, or none will come.
bool Mesh::Impl::begin_message(Peer& peer) {
  const auto frame =
      decode_frame(std::span<const std::byte, kFrameBytes>(peer.staging.data(), kFrameBytes));
  if (!frame) lose(peer, "it sent an invalid message header");
  peer.staging.erase(peer.staging.begin(), peer.staging.begin() + kFrameBytes);
  if (frame->kind == FrameKind::kGoodbye) {
    peer.said_goodbye = true;
    const bool awaited = std::any_of(peer.expected.begin(), peer.expected.end(),
                                     [](const auto& slot) { return !slot.second.empty(); });
    if (awaited) lose(peer, "it left the group");
    return false;
  }
  peer.frame = frame;
  peer.filled = 0;
  return expect_frame(peer);
}

// Finds the memory for the message under way; false if no receive expects it yet.
bool Mesh::Impl::expect_frame(Peer& peer) {
  const auto slot = peer.expected.find(peer.frame->slot);
  if (slot == peer.expected.end()) return false;
  peer.into = slot->second.front();
  slot->second.pop_front();
  if (slot->second.empty()) peer.expected.erase(slot);
  if (peer.into->memory.size() != peer.frame->bytes) {
    lose(peer, format("it sent {} bytes where {} were expected", peer.frame->bytes,
                      peer.into->memory.size()));
  }
  return true;
}

// Copies staged bytes into the message under way, and completes it once it is full.
void Mesh::Impl::fill_message(Peer& peer) {
  const size_t left = peer.into->memory.size() - peer.filled;
  const size_t staged = std::min(left, peer.staging.size());
  if (staged > 0) {
    std::memcpy(peer.into->memory.data() + peer.filled, peer.staging.data(), staged);
    peer.staging.erase(peer.staging.begin(),
                       peer.staging.begin() + static_cast<std::ptrdiff_t>(staged));
    peer.filled += staged;
  }
  if (peer.filled < peer.into->memory.size()) return;
  --peer.into->owner->receiving;
  ++peer.into->owner->received;
  peer.into.reset();
  peer.frame.reset();
}

void Mesh::Impl::write_to(Peer& peer) {
  while (!peer.out.empty()) {
    Outgoing& next = peer.out.front();
    const std::span<const std::byte> header(next.header);
    const size_t in_header = std::min(next.done, header.size());
    const Channel::Moved moved =
        peer.channel.write(header.subspan(in_header), next.payload.subspan(next.done - in_header));
    next.done += moved.bytes;
    if (!moved.open) lose(peer);
    if (next.done < header.size() + next.payload.size()) {
      if (moved.bytes == 0) return;
      continue;
    }
    if (next.owner != nullptr) {
      --next.owner->sending;
      ++next.owner->sent;
    }
    peer.out.pop_front();
  }
}

// A machine that vanished, or a link that is cut between two ranks alone, acknowledges nothing. A
// rank that is merely busy does: its kernel answers for it.
void Mesh::Impl::check_reachable() {
  if (options.silence.count() == 0) return;
  const auto now = Clock::now();
  for_peers([&](Peer& peer) {
    if (!peer.channel.open() || peer.said_goodbye) return;
    const Acknowledgement last = acknowledgement_of(peer.channel.socket());
    if (!last.outstanding) return peer.unanswered_since.reset();
    const auto answered = now - last.since_last;
    if (!peer.unanswered_since) peer.unanswered_since = now;
    peer.unanswered_since = std::max(*peer.unanswered_since, Clock::time_point(answered));
    if (now - *peer.unanswered_since < options.silence) return;
    cut_off(peer);
  });
}

std::unique_ptr<MeshBuffer> Mesh::buffer(std::span<std::byte> memory) {
  return std::unique_ptr<MeshBuffer>(
      new MeshBuffer(*this, memory.data(), memory.data(), memory.size()));
}

std::unique_ptr<MeshBuffer> Mesh::buffer(std::span<const std::byte> memory) {
  return std::unique_ptr<MeshBuffer>(new MeshBuffer(*this, memory.data(), nullptr, memory.size()));
}

MeshBuffer::MeshBuffer(Mesh& mesh, const std::byte* from, std::byte* to, size_t bytes)
    : impl_(std::make_unique<Impl>(Impl{.mesh = mesh, .from = from, .to = to, .bytes = bytes})) {
  mesh.impl_->check();
}

MeshBuffer::~MeshBuffer() {
  // The connections may still use the memory, so they end first.
  if (impl_->sending + impl_->receiving > 0) {
    impl_->mesh.fail(CommStatus::closed("a message was given up"));
  }
}

void MeshBuffer::send(int to, uint64_t slot, size_t offset, size_t bytes) {
  Mesh::Impl& p = *impl_->mesh.impl_;
  p.check();
  impl_->peer = to;
  Mesh::Impl::Peer& peer = p.peers[static_cast<size_t>(to)];
  const Frame frame = {.slot = slot, .bytes = static_cast<uint32_t>(bytes)};
  peer.out.push_back({impl_.get(), encode_frame(frame), {impl_->from + offset, bytes}});
  ++impl_->sending;
  if (peer.out.size() == 1) p.write_to(peer);
}

void MeshBuffer::receive(int from, uint64_t slot, size_t offset, size_t bytes) {
  Mesh::Impl& p = *impl_->mesh.impl_;
  p.check();
  impl_->peer = from;
  Mesh::Impl::Peer& peer = p.peers[static_cast<size_t>(from)];
  if (peer.said_goodbye) p.lose(peer, "it left the group");
  peer.expected[slot].push_back({impl_.get(), {impl_->to + offset, bytes}});
  ++impl_->receiving;
  if (peer.paused()) p.expect_frame(peer);
}

void MeshBuffer::wait_sent() {
  Mesh::Impl& p = *impl_->mesh.impl_;
  p.progress_until(impl_->peer, p.options.timeout, [&] { return impl_->sent > 0; });
  --impl_->sent;
}

void MeshBuffer::wait_received() {
  Mesh::Impl& p = *impl_->mesh.impl_;
  p.progress_until(impl_->peer, p.options.timeout, [&] { return impl_->received > 0; });
  --impl_->received;
}

}  // namespace reigen
