#include "dist/group/group_fixture.h"

#include <thread>

#include "base/format.h"
#include "base/interrupt.h"
#include "dist/group/mesh_group.h"
#include "dist/group/single_group.h"

namespace reigen {
namespace {

// Ranks write to connections that may be closed (dist/net/channel.h).
[[maybe_unused]] const bool g_broken_pipes_ignored = (ignore_broken_pipes(), true);

}  // namespace

void with_group(int size, const std::function<void(Group&)>& body, int64_t epoch,
                std::chrono::milliseconds timeout, int on_each, Encrypt encrypt) {
  std::vector<Socket> listeners;
  std::vector<Endpoint> peers;
  for (int rank = 0; rank < size; ++rank) {
    listeners.push_back(listen_on("127.0.0.1", 0));
    peers.push_back({"127.0.0.1", port_of(listeners.back())});
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MeshOptions options;
      options.forming.rank = rank;
      options.forming.size = size;
      options.forming.peers = peers;
      options.forming.listener = &listeners[static_cast<size_t>(rank)];
      for (int r = 0; r < size; ++r) options.machines.push_back(format("host{}", r / on_each));
      options.forming.hosts = options.machines;
      options.forming.token = "secret";
      options.forming.encryption = Encryption(encrypt, options.forming.token);
      options.timeout = timeout;
      int encrypted = 0;
      auto group =
          size == 1 ? make_single_group(epoch) : make_mesh_group(options, epoch, encrypted);
      body(*group);
    });
  }
  for (auto& thread : threads) thread.join();
}

BreakAfter::BreakAfter(Group& group, uint64_t operations) : group_(group), left_(operations) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || left_ == 0; });
    lock.unlock();
    group_.close();
  });
  // Not closed by the watcher itself, which the group calls under its lock.
  group_.watch([this](const Operation&, const OpTimes&, uint64_t) {
    std::lock_guard lock(mutex_);
    if (left_ > 0) --left_;
    changed_.notify_all();
  });
}

BreakAfter::~BreakAfter() {
  group_.watch({});
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace reigen
