#include "dist/group/gloo_mesh.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/thread.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kForever = std::chrono::hours(24 * 365);
constexpr uint64_t kGoodbyeSlot = 1;
constexpr uint64_t kProofSlot = 2;
constexpr size_t kProofBytes = 64;

// The interface through which Gloo exchanges the addresses of all ranks.
class Store : public gloo::rendezvous::Store {
 public:
  Store(KeyValue& values, std::string prefix, milliseconds within)
      : values_(values), prefix_(std::move(prefix)), deadline_(Clock::now() + within) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    values_.set(prefix_ + key, {data.begin(), data.end()});
  }

  std::vector<char> get(const std::string& key) override {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    const auto value = values_.get(prefix_ + key, std::max(left, milliseconds(0)));
    if (!value)
      throw CommError(
          format("rank {} published no data address in time; check that it runs and reaches the "
                 "rendezvous",
                 key));
    return {value->begin(), value->end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }

  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  KeyValue& values_;
  std::string prefix_;
  Clock::time_point deadline_;
};

// While it exists, new threads of this one are SCHED_BATCH. Gloo's own thread spins on the lock of
// a connection in use: if it preempts the thread that holds the lock, on the same core, both stand
// still until the kernel's next tick, milliseconds for every message. A SCHED_BATCH thread does not
// preempt others when it wakes.
class BatchScheduledThreads {
 public:
  BatchScheduledThreads() {
    pthread_getschedparam(pthread_self(), &policy_, &param_);
    const sched_param none{};
    if (policy_ == SCHED_OTHER) pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
  }
  ~BatchScheduledThreads() {
    if (policy_ == SCHED_OTHER) pthread_setschedparam(pthread_self(), policy_, &param_);
  }
  BatchScheduledThreads(const BatchScheduledThreads&) = delete;
  BatchScheduledThreads& operator=(const BatchScheduledThreads&) = delete;

 private:
  int policy_ = SCHED_OTHER;
  sched_param param_{};
};

// Gloo's messages begin with a source location: "[/build/.../pair.cc:589] Read error ...".
std::string without_location(const std::string& message) {
  const size_t end = message.find("] ");
  return message.starts_with('[') && end != std::string::npos ? message.substr(end + 2) : message;
}

}  // namespace

struct MeshBuffer::Impl {
  GlooMesh& mesh;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  int peer = kNoPeer;  // the rank at the other end, if there is only one

  static constexpr int kNoPeer = -1;
  static constexpr int kSeveralPeers = -2;
  void note_peer(int rank) { peer = peer == kNoPeer || peer == rank ? rank : kSeveralPeers; }
};

struct GlooMesh::Impl {
  MeshOptions options;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Context> context;

  mutable std::mutex mutex;
  CommStatus status;
  bool left = false;  // in order: pending messages must still arrive
  std::set<gloo::transport::UnboundBuffer*> waiting;  // cancelled when the mesh fails

  // One receive is always pending on every connection: Gloo fails it at once if one breaks.
  std::thread watcher;
  std::vector<char> goodbyes;  // one byte from each rank
  std::unique_ptr<gloo::transport::UnboundBuffer> goodbye_in;
  std::condition_variable goodbye_came;
  int departed = 0;  // ranks whose goodbye has come

  std::string host(int rank) const {
    return rank >= 0 && static_cast<size_t>(rank) < options.hosts.size()
               ? options.hosts[static_cast<size_t>(rank)]
               : std::string();
  }

  milliseconds limit() const { return options.timeout.count() > 0 ? options.timeout : kForever; }

  template <class Each>
  void for_peers(Each each) const {
    for (int distance = 1; distance < options.size; ++distance) {
      each((options.rank + distance) % options.size);
    }
  }

  void connect(KeyValue& store);
  void prove();
  void watch();
  int broken_peer();
  template <class Call>
  void guarded(GlooMesh& mesh, int peer, Call call);
};

void GlooMesh::Impl::connect(KeyValue& values) {
  gloo::transport::tcp::attr attributes(options.address.c_str());
  {
    const BatchScheduledThreads batch_scheduled;
    device = gloo::transport::tcp::CreateDevice(attributes);
  }
  context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
  // Gloo waits five times its timeout for a connection; every later wait has a limit of its own.
  constexpr int kGlooFactor = 5;
  context->setTimeout(std::max(options.connect_timeout / kGlooFactor, milliseconds(1)));
  Store store(values, options.prefix, options.connect_timeout);
  context->connectFullMesh(store, device);
}

// Data ports accept any connection. Before anything else each side proves that it knows the job's
// secret, and its rank.
void GlooMesh::Impl::prove() {
  const auto proof = [this](int from, int to) {
    return hmac_sha256(options.secret, format("{} {} {}", options.prefix, from, to));
  };
  std::vector<std::string> out(static_cast<size_t>(options.size));
  std::vector<std::array<char, kProofBytes>> in(static_cast<size_t>(options.size));
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> buffers;
  const auto deadline = Clock::now() + options.connect_timeout;
  for_peers([&](int peer) {
    const auto at = static_cast<size_t>(peer);
    out[at] = proof(options.rank, peer);
    buffers.push_back(context->createUnboundBuffer(in[at].data(), kProofBytes));
    buffers.back()->recv(peer, kProofSlot, 0, kProofBytes);
    buffers.push_back(context->createUnboundBuffer(out[at].data(), kProofBytes));
    buffers.back()->send(peer, kProofSlot, 0, kProofBytes);
  });
  size_t at = 0;
  for_peers([&](int peer) {
    buffers[at++]->waitRecv(deadline);
    buffers[at++]->waitSend(deadline);
    if (!same_secret({in[static_cast<size_t>(peer)].data(), kProofBytes},
                     proof(peer, options.rank))) {
      throw CommError(
          format("{} did not prove that it knows the job token; another program may use its port",
                 rank_and_host(peer, host(peer))));
    }
  });
}

// The rank whose connection is down (Gloo refuses to use it), or -1.
int GlooMesh::Impl::broken_peer() {
  int broken = -1;
  char byte = 0;
  auto probe = context->createUnboundBuffer(&byte, 1);
  for_peers([&](int peer) {
    if (broken >= 0 || goodbyes[static_cast<size_t>(peer)] != 0) return;
    try {
      probe->recv(peer, kGoodbyeSlot, 0, 1);
    } catch (const std::exception&) {
      broken = peer;
    }
  });
  return broken;
}

void GlooMesh::Impl::watch() {
  while (true) {
    if (!goodbye_in->waitRecv(kForever)) return;  // cancelled
    std::lock_guard lock(mutex);
    ++departed;
    goodbye_came.notify_all();
  }
}

GlooMesh::GlooMesh(const MeshOptions& options, KeyValue& store) : impl_(std::make_unique<Impl>()) {
  Impl& p = *impl_;
  p.options = options;
  try {
    p.connect(store);
    p.prove();
    p.goodbyes.resize(static_cast<size_t>(options.size));
    p.goodbye_in = p.context->createUnboundBuffer(p.goodbyes.data(), p.goodbyes.size());
    p.for_peers(
        [&](int peer) { p.goodbye_in->recv(peer, kGoodbyeSlot, static_cast<size_t>(peer), 1); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw CommError(format("rank {} cannot connect from {} to all other ranks: {}", options.rank,
                           options.address, without_location(e.what())));
  }
  p.watcher = thread_without_signals([this] {
    try {
      impl_->watch();
    } catch (const std::exception& e) {
      // After a timeout Gloo closes all connections; the wait that timed out reports it.
      if (without_location(e.what()).starts_with("Application timeout")) return;
      const int peer = impl_->broken_peer();
      fail(CommStatus::lost(peer, impl_->host(peer), without_location(e.what())));
    }
  });
}

GlooMesh::~GlooMesh() {
  Impl& p = *impl_;
  fail(CommStatus::closed(""));
  if (p.goodbye_in) p.goodbye_in->abortWaitRecv();
  if (p.watcher.joinable()) p.watcher.join();
}

void GlooMesh::fail(const CommStatus& why) {
  Impl& p = *impl_;
  {
    std::lock_guard lock(p.mutex);
    if (!p.status.ok()) return;
    p.status = why;
    if (p.left) return;
    for (auto* buffer : p.waiting) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
    p.goodbye_came.notify_all();
  }
  // Outside of the lock: closing waits for Gloo's thread, and waiting threads must not.
  try {
    p.context->closeConnections();
  } catch (const std::exception&) {
    // The connections are unusable either way.
  }
}

CommStatus GlooMesh::status() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->status;
}

CommStatus GlooMesh::leave(milliseconds within) {
  Impl& p = *impl_;
  char goodbye = 1;
  try {
    std::span<const char> byte(&goodbye, 1);
    auto out = buffer(std::as_bytes(byte));
    p.for_peers([&](int peer) { out->send(peer, kGoodbyeSlot, 0, 1); });
    p.for_peers([&](int) { out->wait_sent(); });
    std::unique_lock lock(p.mutex);
    const auto all_departed = [&] { return p.departed == p.options.size - 1 || !p.status.ok(); };
    if (!p.goodbye_came.wait_for(lock, within, all_departed)) {
      return CommStatus::timeout(-1, "", "not all ranks closed the group in time");
    }
    p.left = p.status.ok();
    return p.status;
  } catch (const CommFailure& failure) {
    return failure.status;
  }
}

std::unique_ptr<MeshBuffer> GlooMesh::buffer(std::span<std::byte> memory) {
  return std::unique_ptr<MeshBuffer>(new MeshBuffer(*this, memory.data(), memory.size()));
}

std::unique_ptr<MeshBuffer> GlooMesh::buffer(std::span<const std::byte> memory) {
  // Gloo has one buffer type for both directions; sending only reads.
  return std::unique_ptr<MeshBuffer>(
      new MeshBuffer(*this, const_cast<std::byte*>(memory.data()), memory.size()));
}

MeshBuffer::MeshBuffer(GlooMesh& mesh, void* data, size_t bytes)
    : impl_(std::make_unique<Impl>(Impl{mesh, nullptr})) {
  GlooMesh::Impl& p = *mesh.impl_;
  std::lock_guard lock(p.mutex);
  if (!p.status.ok()) throw CommFailure{p.status};
  impl_->buffer = p.context->createUnboundBuffer(data, bytes);
  p.waiting.insert(impl_->buffer.get());
}

MeshBuffer::~MeshBuffer() {
  if (!impl_->buffer) return;
  GlooMesh::Impl& p = *impl_->mesh.impl_;
  std::lock_guard lock(p.mutex);
  p.waiting.erase(impl_->buffer.get());
}

// Runs a Gloo call; its exception means that `peer` is lost.
template <class Call>
void GlooMesh::Impl::guarded(GlooMesh& mesh, int peer, Call call) {
  bool completed = false;
  try {
    completed = call();
  } catch (const std::exception& e) {
    const std::string what = without_location(e.what());
    if (peer < 0) peer = broken_peer();
    mesh.fail(what.starts_with("Timed out") ? CommStatus::timeout(peer, host(peer), what)
                                            : CommStatus::lost(peer, host(peer), what));
  }
  if (!completed) throw CommFailure{mesh.status()};
}

void MeshBuffer::send(int to, uint64_t slot, size_t offset, size_t bytes) {
  impl_->note_peer(to);
  impl_->mesh.impl_->guarded(impl_->mesh, to, [&] {
    impl_->buffer->send(to, slot, offset, bytes);
    return true;
  });
}

void MeshBuffer::receive(int from, uint64_t slot, size_t offset, size_t bytes) {
  impl_->note_peer(from);
  impl_->mesh.impl_->guarded(impl_->mesh, from, [&] {
    impl_->buffer->recv(from, slot, offset, bytes);
    return true;
  });
}

void MeshBuffer::wait_sent() {
  GlooMesh::Impl& p = *impl_->mesh.impl_;
  p.guarded(impl_->mesh, impl_->peer, [&] { return impl_->buffer->waitSend(p.limit()); });
}

void MeshBuffer::wait_received() {
  GlooMesh::Impl& p = *impl_->mesh.impl_;
  p.guarded(impl_->mesh, impl_->peer, [&] { return impl_->buffer->waitRecv(p.limit()); });
}

}  // namespace reigen
